#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace loadstone {

/// "1.50 GB": decimal units (1 GB = 1e9 bytes), three digits. For people; programs get the integer.
std::string format_bytes(std::int64_t bytes);
/// A rate in bytes a second: "12.3 GB/s".
std::string format_rate(double bytes_per_second);
/// value with `digits` digits after the point.
std::string format_fixed(double value, int digits);
/// "1,234,567"
std::string format_count(std::int64_t value);
/// Reads a size in bytes: an integer, or one with kB, MB, GB, KiB, MiB, GiB. Error{usage} naming `text` otherwise.
std::int64_t parse_bytes(std::string_view text);
/// Reads a whole string as a decimal integer; false if it is not one or does not fit.
bool parse_int(std::string_view text, std::int64_t& out);
/// The pieces between separators; an empty text gives one empty piece.
std::vector<std::string> split(std::string_view text, char separator);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
/// The first `limit` parts, then "and N more". For messages about many files.
std::string join_first(const std::vector<std::string>& parts, std::size_t limit);
/// The known word nearest to `word` by edit distance, or "" when none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& known);
/// text with control characters and invalid UTF-8 shown as \xNN, so that a file name cannot break a terminal or JSON.
std::string printable(std::string_view text);

}  // namespace loadstone
