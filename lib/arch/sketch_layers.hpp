#pragma once

#include "arch/blueprint.hpp"
#include "arch/sketch.hpp"

namespace ppctl {

/// The layers of lib/model on tensors that are only memory: each function allocates, saves and lets go in the order of
/// its counterpart there, so that a plan knows to the byte what a rank will hold, without torch. A test compares every
/// family with its modules; who changes a layer changes its sketch.

SketchTensor sketch_forward(const TokenEmbeddingConfig& config, const SketchTensor& ids, Sketch& sketch);
void sketch_backward(const TokenEmbeddingConfig& config, const SketchTensor& dy, Sketch& sketch);

SketchTensor sketch_forward(const DecoderLayerConfig& config, const SketchTensor& x, Sketch& sketch);
SketchTensor sketch_backward(const DecoderLayerConfig& config, const SketchTensor& dy, Sketch& sketch);

/// REQUIRES of both: sketch.shape is that of images: as many samples, and the tokens of an image.
SketchTensor sketch_forward(const PatchEmbeddingConfig& config, Sketch& sketch);
void sketch_backward(const PatchEmbeddingConfig& config, Sketch& sketch);

/// `x` has `images` images; sketch.shape is that of the text.
SketchTensor sketch_forward(const ImageMergeConfig& config, const SketchTensor& x, const SketchTensor& ids,
                            std::int64_t images, Sketch& sketch);
SketchTensor sketch_backward(const ImageMergeConfig& config, std::int64_t images, Sketch& sketch);

/// With labels: the loss leaves the gradient of the logits.
void sketch_forward(const LanguageHeadConfig& config, const SketchTensor& x, Sketch& sketch);
SketchTensor sketch_backward(const LanguageHeadConfig& config, Sketch& sketch);

}  // namespace ppctl
