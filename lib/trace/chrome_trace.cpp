#include "trace/chrome_trace.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <string>

#include "trace/event_names.hpp"

namespace ppctl {
namespace {

constexpr std::string_view kLaneNames[] = {"compute", "second thread", "communication"};

std::string json_string(std::string_view text) {
  return nlohmann::json(std::string(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Events are written one by one rather than as one document: a trace can have millions.
class TraceWriter {
 public:
  explicit TraceWriter(std::ostream& out) : out_(out) { out_ << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"; }

  void entry(const std::string& object) {
    if (!first_) out_ << ",\n";
    first_ = false;
    out_ << object;
  }
  void metadata(std::string_view what, int process, int thread, std::string_view key, const std::string& value) {
    entry(fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"{}":{}}}}})", what, process, thread, key,
                      value));
  }
  void finish() { out_ << "\n]}\n"; }

 private:
  std::ostream& out_;
  bool first_ = true;
};

std::string event_name(const TimelineEvent& event) {
  if (event.kind == EventKind::kWait) {
    return event.peer.valid() ? fmt::format("wait for rank {}", event.peer) : std::string("wait");
  }
  std::string name = event_label(event, false);
  if (name.empty()) name = event_style(event.kind).name;
  if (event.stage.valid()) name += fmt::format(" s{}", event.stage);
  return name;
}

std::string event_arguments(const TimelineEvent& event) {
  std::string arguments;
  const auto add = [&](std::string_view key, int value) {
    if (!arguments.empty()) arguments += ',';
    arguments += fmt::format("\"{}\":{}", key, value);
  };
  if (event.stage.valid()) add("stage", event.stage.value);
  if (event.microbatch.valid()) add("microbatch", event.microbatch.value);
  if (event.peer.valid()) add("peer", event.peer.value);
  return arguments;
}

}  // namespace

void write_chrome_trace(std::ostream& out, std::span<const Timeline> timelines) {
  TraceWriter writer(out);
  int process = 0;
  for (const Timeline& timeline : timelines) {
    for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank, ++process) {
      const std::string prefix = timelines.size() > 1 ? timeline.title + " " : "";
      writer.metadata("process_name", process, 0, "name", json_string(fmt::format("{}rank {}", prefix, rank)));
      writer.metadata("process_sort_index", process, 0, "sort_index", std::to_string(process));
      std::set<int> lanes;
      for (const TimelineEvent& event : timeline.ranks[rank]) lanes.insert(event.lane);
      for (const int lane : lanes) {
        const std::string name = lane < 3 ? std::string(kLaneNames[lane]) : fmt::format("lane {}", lane);
        writer.metadata("thread_name", process, lane, "name", json_string(name));
        writer.metadata("thread_sort_index", process, lane, "sort_index", std::to_string(lane));
      }
      for (const TimelineEvent& event : timeline.ranks[rank]) {
        writer.entry(
            fmt::format(R"({{"ph":"X","name":{},"cat":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
                        json_string(event_name(event)), json_string(event_style(event.kind).name), process, event.lane,
                        event.start_ms * 1e3, (event.end_ms - event.start_ms) * 1e3, event_arguments(event)));
      }
    }
  }
  writer.finish();
}

void write_chrome_trace(std::ostream& out, const Timeline& timeline) {
  write_chrome_trace(out, std::span<const Timeline>(&timeline, 1));
}

}  // namespace ppctl
