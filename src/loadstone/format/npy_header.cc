#include "loadstone/format/npy_header.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"

namespace loadstone {

namespace {

constexpr int kMaxDepth = 32;            // of nested lists and tuples; NumPy's structured types need a few
constexpr int kMaxDims = 64;             // NumPy's limit
constexpr std::size_t kMaxItems = 4096;  // of one list; a structured type with more fields is refused all the same
constexpr std::size_t kQuoted = 160;     // bytes of the header shown in a message

enum class Kind : std::uint8_t { string, integer, boolean, none, tuple, list };

struct Value {
  Kind kind = Kind::none;
  std::string text;  // of a string; of an integer that does not fit
  std::int64_t integer = 0;
  bool fits = true;
  bool boolean = false;
  std::vector<Value> items;
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || is_digit(c);
}

/// Spellings that NumPy scalars leave in a header: np.int64(3).
bool is_integer_type(std::string_view name) {
  for (const std::string_view prefix : {"numpy.", "np."}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  if (name.starts_with('u')) name.remove_prefix(1);
  static constexpr std::array<std::string_view, 9> kNames{"int",  "int8", "int16", "int32",   "int64",
                                                          "intp", "intc", "long",  "longlong"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

/// A recursive-descent reader of the literals that a .npy header may hold.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  NpyHeader header() {
    skip_blanks();
    expect('{', "a dictionary");
    NpyHeader out;
    std::vector<std::string> seen;
    for (skip_blanks(); peek() != '}'; skip_blanks()) {
      const Value key = value(0);
      if (key.kind != Kind::string) fail("a key is not a string");
      if (std::find(seen.begin(), seen.end(), key.text) != seen.end()) fail(cat("key '", key.text, "' occurs twice"));
      seen.push_back(key.text);
      skip_blanks();
      expect(':', "':' after a key");
      skip_blanks();
      const std::size_t begin = at_;
      const Value item = value(0);
      take(out, key.text, item, text_.substr(begin, at_ - begin));
      skip_blanks();
      if (peek() == ',') {
        ++at_;
      } else if (peek() != '}') {
        fail("expected ',' or '}' after a value");
      }
    }
    ++at_;
    skip_blanks();
    if (at_ != text_.size()) fail("text after the dictionary");
    for (const char* key : {"descr", "fortran_order", "shape"}) {
      if (std::find(seen.begin(), seen.end(), key) == seen.end()) fail(cat("key '", key, "' is missing"));
    }
    return out;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    const std::string_view text = text_.substr(0, text_.find_last_not_of(" \n") + 1);
    throw data_error(cat("malformed npy header: ", printable(what), ", in ", printable(text.substr(0, kQuoted)),
                         text.size() > kQuoted ? "…" : ""));
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void expect(char c, std::string_view what) {
    if (at_ >= text_.size()) fail(cat("expected ", what, ", found the end of the header"));
    if (text_[at_] != c) fail(cat("expected ", what));
    ++at_;
  }
  void skip_blanks() {
    while (at_ < text_.size() && std::string_view(" \t\n\r\f").find(text_[at_]) != std::string_view::npos) ++at_;
  }

  void take(NpyHeader& out, std::string_view key, const Value& v, std::string_view source) const {
    if (key == "fortran_order") {
      if (v.kind != Kind::boolean) fail("fortran_order is neither True nor False");
      out.fortran_order = v.boolean;
    } else if (key == "shape") {
      out.shape = shape_of(v);
    } else if (key == "descr") {
      if (v.kind == Kind::string) {
        out.descr = v.text;
      } else if (v.kind == Kind::list) {
        out.structured = cat("structured ", printable(source.substr(0, kQuoted)));
      } else if (v.kind == Kind::tuple) {
        out.structured = cat("sub-array ", printable(source.substr(0, kQuoted)));
      } else {
        fail("descr is not a type string");
      }
    } else {
      fail(cat("unknown key '", key, "'"));
    }
  }

  Shape shape_of(const Value& v) const {
    if (v.kind != Kind::tuple) fail("shape is not a tuple");
    if (v.items.size() > static_cast<std::size_t>(kMaxDims)) {
      fail(cat("shape has ", v.items.size(), " dimensions, more than ", kMaxDims));
    }
    Shape shape;
    for (const Value& item : v.items) {
      if (item.kind != Kind::integer) fail("shape holds something that is not an integer");
      if (!item.fits) fail(cat("shape holds ", item.text.substr(0, 40), ", which is too large"));
      if (item.integer < 0) fail(cat("shape has a negative dimension ", item.integer));
      shape.push_back(item.integer);
    }
    return shape;
  }

  Value value(int depth) {
    if (depth > kMaxDepth) fail("nested too deeply");
    const char c = peek();
    if (c == '\'' || c == '"') return string();
    if ((c == 'u' || c == 'U') && at_ + 1 < text_.size() && (text_[at_ + 1] == '\'' || text_[at_ + 1] == '"')) {
      ++at_;  // Python 2 wrote u'descr'
      return string();
    }
    if (c == '(') return sequence(')', depth);
    if (c == '[') return sequence(']', depth);
    if (is_digit(c) || c == '-' || c == '+') return integer();
    if (is_name(c)) return named(depth);
    fail(at_ >= text_.size() ? "it ends in the middle" : cat("unexpected '", std::string(1, c), "'"));
  }

  Value string() {
    Value out;
    out.kind = Kind::string;
    const char quote = text_[at_++];
    for (;;) {
      if (at_ >= text_.size()) fail("a string has no end");
      const char c = text_[at_++];
      if (c == quote) return out;
      if (c == '\n') fail("a string has a line break");
      if (c != '\\') {
        out.text.push_back(c);
        continue;
      }
      if (at_ >= text_.size()) fail("a string has no end");
      const char escaped = text_[at_++];
      if (escaped == 'x') {
        out.text.push_back(hex_pair());
      } else if (escaped == '\\' || escaped == '\'' || escaped == '"') {
        out.text.push_back(escaped);
      } else if (escaped == 'n' || escaped == 't') {
        out.text.push_back(escaped == 'n' ? '\n' : '\t');
      } else {
        // As Python keeps unknown escapes; \u and octal only matter in field names, which are refused anyway.
        out.text.push_back('\\');
        out.text.push_back(escaped);
      }
    }
  }

  char hex_pair() {
    unsigned value = 0;
    for (int i = 0; i < 2; ++i) {
      const char c = peek();
      const unsigned digit = is_digit(c)              ? static_cast<unsigned>(c - '0')
                             : (c >= 'a' && c <= 'f') ? static_cast<unsigned>(c - 'a' + 10)
                             : (c >= 'A' && c <= 'F') ? static_cast<unsigned>(c - 'A' + 10)
                                                      : 16U;
      if (digit > 15U) fail("a \\x escape without two hexadecimal digits");
      value = value * 16 + digit;
      ++at_;
    }
    return static_cast<char>(static_cast<unsigned char>(value));
  }

  Value integer() {
    Value out;
    out.kind = Kind::integer;
    const std::size_t begin = at_;
    if (peek() == '-' || peek() == '+') ++at_;
    const std::size_t digits = at_;
    while (is_digit(peek())) ++at_;
    if (at_ == digits) fail("a sign without a number");
    // Octal in Python 2, an error in Python 3.
    if (at_ - digits > 1 && text_[digits] == '0') fail("a number with a leading zero");
    out.text = std::string(text_.substr(begin, at_ - begin));
    out.fits = parse_int(out.text.starts_with('+') ? std::string_view(out.text).substr(1) : std::string_view(out.text),
                         out.integer);
    if (peek() == 'L' || peek() == 'l') ++at_;  // a long of Python 2
    if (is_name(peek())) fail(cat("'", out.text, peek(), "…' is not an integer"));
    return out;
  }

  Value sequence(char close, int depth) {
    Value out;
    out.kind = close == ')' ? Kind::tuple : Kind::list;
    ++at_;
    bool comma = false;
    for (skip_blanks(); peek() != close; skip_blanks()) {
      if (at_ >= text_.size()) fail(cat("'", close, "' is missing"));
      if (!out.items.empty() && !comma) fail(cat("expected ',' or '", close, "'"));
      if (out.items.size() >= kMaxItems) fail("a list is too long");
      out.items.push_back(value(depth + 1));
      skip_blanks();
      comma = peek() == ',';
      if (comma) ++at_;
    }
    ++at_;
    // Python's (3) is the number 3, not a tuple.
    if (close == ')' && out.items.size() == 1 && !comma) return Value(std::move(out.items.front()));
    return out;
  }

  Value named(int depth) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    Value out;
    if (name == "True" || name == "False") {
      out.kind = Kind::boolean;
      out.boolean = name == "True";
      return out;
    }
    if (name == "None") return out;
    if (is_integer_type(name)) {
      skip_blanks();
      if (peek() == '(') {
        ++at_;
        skip_blanks();
        out = value(depth + 1);
        skip_blanks();
        expect(')', "')'");
        if (out.kind == Kind::integer) return out;
      }
    }
    fail(cat("'", name.substr(0, 40), "' is not a literal"));
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text) {
  return Reader(text).header();
}

}  // namespace loadstone
