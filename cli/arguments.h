#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace loadstone::cli {

/// The options of one verb: a thin cover of CLI11, so that one source alone includes it. Names are as CLI11 takes them
/// ("--array,--tensor"). Targets must outlive the object; they keep their value when the option is not given.
class Arguments {
 public:
  Arguments(const std::string& verb, const std::string& summary, const std::string& examples);
  ~Arguments();

  /// Options added from here on are listed under this title by help().
  void group(const std::string& title);
  /// One value, kept as typed (also "-" and "").
  void text(const std::string& names, std::optional<std::string>& target, const std::string& type,
            const std::string& description);
  /// Values separated by commas; may be repeated.
  void list(const std::string& names, std::vector<std::string>& target, const std::string& type,
            const std::string& description);
  void flag(const std::string& names, bool& target, const std::string& description);
  /// A flag that may also be given as --name=value; `bare` is its value without one.
  void flag_or_value(const std::string& name, const std::string& bare, std::string& target,
                     const std::string& description);
  /// The words that are no options, as they stand.
  void positionals(const std::string& name, std::vector<std::string>& target, const std::string& description);

  std::string help() const;
  /// Long names with the dashes, sorted.
  std::vector<std::string> option_names() const;

  /// What was wrong with the words, for the caller to say better.
  struct Unread {
    std::string word;     ///< an unknown option, or a word too many
    std::string message;  ///< or CLI11's own words
  };
  enum class Parsed { done, help_wanted };
  /// Throws Unread.
  Parsed parse(const std::vector<std::string>& words);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace loadstone::cli
