#include "runtime/batch_split.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace ppctl {
namespace {

std::string error_of(const TensorList& args, const TensorMap& kwargs, const BatchDims& dims, int m) {
  try {
    split_batch(args, kwargs, dims, m);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(BatchSplit, SplitsDimZeroUnlessToldOtherwise) {
  const at::Tensor x = at::arange(12).view({4, 3});
  const auto parts = split_batch({x}, {{"labels", x}}, {}, 2);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_TRUE(at::equal(parts[1].args[0], x.slice(0, 2, 4)));
  EXPECT_TRUE(at::equal(parts[0].kwargs.at("labels"), x.slice(0, 0, 2)));
}

TEST(BatchSplit, SplitsTheDimOfEachInputAndReplicatesWhatHasNone) {
  const at::Tensor x = at::arange(12).view({3, 4});
  const at::Tensor scale = at::arange(5);
  const BatchDims dims{.args = {{1}, {BatchDimSpec::kReplicated}}, .kwargs = {{"mask", {1}}}};
  const auto parts = split_batch({x, scale}, {{"mask", x}}, dims, 4);
  EXPECT_TRUE(at::equal(parts[2].args[0], x.slice(1, 2, 3)));
  EXPECT_TRUE(parts[2].args[1].is_same(scale));
  EXPECT_TRUE(at::equal(parts[3].kwargs.at("mask"), x.slice(1, 3, 4)));
}

TEST(BatchSplit, CopiesNothing) {
  const at::Tensor x = at::arange(12).view({4, 3});
  EXPECT_EQ(split_batch({x}, {}, {}, 2)[0].args[0].data_ptr(), x.data_ptr());
}

TEST(BatchSplit, NamesTheInputThatCannotBeDivided) {
  const at::Tensor x = at::zeros({10, 3});
  EXPECT_EQ(error_of({x}, {}, {}, 4), "input 0: 10 rows in dim 0 cannot be split into 4 microbatches of equal size");
  EXPECT_EQ(error_of({}, {{"labels", x}}, {}, 3),
            "input labels: 10 rows in dim 0 cannot be split into 3 microbatches of equal size");
  EXPECT_EQ(error_of({at::zeros({0, 3})}, {}, {}, 3), "input 0: dim 0 is empty");
}

TEST(BatchSplit, NamesTheInputWhoseDimDoesNotExist) {
  EXPECT_EQ(error_of({at::zeros({4})}, {}, {.args = {{1}}}, 2), "input 0: its batch dim is 1, but it has 1 dim");
  EXPECT_EQ(error_of({at::zeros({4})}, {}, {.args = {{-2}}}, 2),
            "input 0: batch dim -2 is neither a dim nor -1 (replicated)");
}

TEST(BatchSplit, RefusesSpecsOfInputsThatAreNotThere) {
  EXPECT_EQ(error_of({}, {}, {.args = {{0}}}, 2), "there are 1 batch dims for 0 positional inputs");
  EXPECT_EQ(error_of({}, {}, {.kwargs = {{"mask", {0}}}}, 2),
            "there is a batch dim for the keyword input mask, which is not given");
  EXPECT_EQ(error_of({}, {}, {}, 0), "a batch cannot be split into 0 microbatches");
}

}  // namespace
}  // namespace ppctl
