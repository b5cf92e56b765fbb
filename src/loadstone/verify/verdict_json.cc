#include "loadstone/verify/verdict_json.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "loadstone/base/text.h"

namespace loadstone {

namespace {

using json = nlohmann::ordered_json;

json list(const Dims& dims) {
  json out = json::array();
  for (const std::int64_t value : dims) out.push_back(value);
  return out;
}

json object(const Device& device) {
  return {{"id", device.id}, {"place", place_name(device)}, {"process", device.process}};
}

json object(const Box& box, const Shape& shape) {
  const std::string text = box.ndim() == shape.size() ? to_string(box, shape) : to_string(box);
  return {{"begin", list(box.begin)}, {"end", list(box.end)}, {"text", text}};
}

json text_or_null(const std::string& text) {
  return text.empty() ? json(nullptr) : json(text);
}

std::string_view holds_name(Accusation::Holds holds) {
  switch (holds) {
    case Accusation::Holds::other_box: return "other_box";
    case Accusation::Holds::all_zero: return "all_zero";
    case Accusation::Holds::unknown: return "unknown";
    case Accusation::Holds::other_structure: return "other_structure";
  }
  return "";
}

json object(const Accusation& a) {
  json owners = json::array();
  for (const Device& device : a.found_owners) owners.push_back(object(device));
  return {
      {"array", printable(a.array)},
      {"level", std::string(to_string(a.level)).substr(0, 2)},
      {"device", a.device_known ? object(a.device) : json(nullptr)},
      {"replica_id", a.device_known ? json(a.replica_id) : json(nullptr)},
      {"expected_box", object(a.expected_box, a.shape)},
      {"holds", holds_name(a.holds)},
      {"found_box", a.found_box ? object(*a.found_box, a.shape) : json(nullptr)},
      {"found_owners", owners},
      {"first_index", a.first_index ? list(*a.first_index) : json(nullptr)},
      {"byte_offset", a.byte_offset ? json(*a.byte_offset) : json(nullptr)},
      {"expected_bits", text_or_null(a.expected_bits)},
      {"found_bits", text_or_null(a.found_bits)},
      {"counterpart", a.counterpart ? object(*a.counterpart) : json(nullptr)},
      {"culprit_known", a.culprit_known},
      {"detail", text_or_null(a.detail)},
      {"text", to_string(a)},
  };
}

}  // namespace

std::string to_json(const Verdict& verdict) {
  json levels = json::array();
  for (const LevelResult& level : verdict.levels) {
    const std::string name(to_string(level.level));
    levels.push_back({{"level", name.substr(0, 2)},
                      {"name", name.substr(3)},
                      {"ran", level.ran},
                      {"ok", level.ok},
                      {"bytes", level.bytes},
                      {"note", level.note}});
  }
  json accusations = json::array();
  for (const Accusation& a : verdict.accusations) accusations.push_back(object(a));
  const json out = {{"ok", verdict.ok()},
                    {"shards", verdict.shards},
                    {"bytes_verified", verdict.bytes_verified},
                    {"seconds", verdict.seconds},
                    {"digest", text_or_null(verdict.digest)},
                    {"levels", levels},
                    {"accusations", accusations},
                    {"hints", verdict.hints}};
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace loadstone
