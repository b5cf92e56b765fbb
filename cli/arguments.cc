#include "cli/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"

namespace loadstone::cli {

namespace {

constexpr std::size_t kColumn = 32;  // where descriptions begin
constexpr std::size_t kWidth = 100;

/// CLI11's help with wrapped descriptions, one blank line between groups and --flag[=value].
class Help : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    return cat("\n", CLI::Formatter::make_usage(app, std::move(name)));
  }
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string left = cat("  ", is_positional ? option->get_name(true, false) : option->get_name(false, true));
    if (const std::size_t brace = left.find('{'); brace != std::string::npos) left.resize(brace);
    if (!is_positional && !option->get_type_name().empty()) left += cat(" ", option->get_type_name());
    std::string out;
    for (const std::string& word : split(option->get_description(), ' ')) {
      if (left.size() > kColumn - 2 && left.find_first_not_of(' ') < kColumn) {
        out += left + "\n";
        left.clear();
      }
      if (left.size() < kColumn) left.resize(kColumn, ' ');
      if (left.size() + 1 + word.size() > kWidth) {
        out += left + "\n";
        left.assign(kColumn, ' ');
      }
      left += cat(left.size() == kColumn ? "" : " ", word);
    }
    return out + left + "\n";
  }
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    std::string out = cat("\n", group, ":\n");
    for (const CLI::Option* option : options) out += make_option(option, is_positional);
    return out;
  }
};

}  // namespace

struct Arguments::Impl {
  Impl(const std::string& verb, const std::string& summary) : app(summary, "loadstone " + verb) {}
  CLI::App app;
  std::vector<std::string>* positionals = nullptr;
};

Arguments::Arguments(const std::string& verb, const std::string& summary, const std::string& examples)
    : impl_(std::make_unique<Impl>(verb, summary)) {
  impl_->app.footer("Examples:\n" + examples);
  impl_->app.formatter(std::make_shared<Help>());
  impl_->app.set_help_flag("-h,--help", "print this help and exit");
}

Arguments::~Arguments() = default;

void Arguments::group(const std::string& title) {
  impl_->app.option_defaults()->group(title);
}

void Arguments::text(const std::string& names, std::optional<std::string>& target, const std::string& type,
                     const std::string& description) {
  impl_->app
      .add_option_function<std::string>(
          names, [&target](const std::string& value) { target = value; }, description)
      ->type_name(type);
}

void Arguments::list(const std::string& names, std::vector<std::string>& target, const std::string& type,
                     const std::string& description) {
  const auto add = [&target](const std::vector<std::string>& values) {
    for (const std::string& value : values) {
      for (std::string& part : split(value, ',')) target.push_back(std::move(part));
    }
  };
  // Without this a list would swallow the paths behind it, and CLI11 would take "[a]" apart.
  impl_->app.add_option_function<std::vector<std::string>>(names, add, description)
      ->type_name(type)
      ->allow_extra_args(false);
}

void Arguments::flag(const std::string& names, bool& target, const std::string& description) {
  impl_->app.add_flag(names, target, description);
}

void Arguments::flag_or_value(const std::string& name, const std::string& bare, std::string& target,
                              const std::string& description) {
  impl_->app.add_flag(name + "{" + bare + "}", target, description);
}

void Arguments::positionals(const std::string& name, std::vector<std::string>& target, const std::string& description) {
  impl_->positionals = &target;
  // Listed for help(); parse() hands them over itself, as CLI11 would take a path "[a]" apart.
  impl_->app.add_option(name, description)->type_name("");
}

std::string Arguments::help() const {
  return impl_->app.help();
}

std::vector<std::string> Arguments::option_names() const {
  const CLI::App& app = impl_->app;
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

namespace {

struct Words {
  std::vector<std::string> options, positionals;
};

/// Options with their values, and the rest. CLI11 would take the next word for the value of `--spec=`, so
/// `--name=value` becomes two words where the option takes a value. All words after `--` are positional.
Words apart(const CLI::App& app, const std::vector<std::string>& words) {
  Words out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") {
      out.positionals.insert(out.positionals.end(), words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
      break;
    }
    if (word.size() < 2 || word.front() != '-') {
      out.positionals.push_back(word);
      continue;
    }
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const CLI::Option* option = name.starts_with("--") ? app.get_option_no_throw(name) : nullptr;
    if (option == nullptr || option->get_items_expected_min() == 0) {
      out.options.push_back(word);
      continue;
    }
    out.options.push_back(name);
    if (equals != std::string::npos) {
      out.options.push_back(word.substr(equals + 1));
    } else if (i + 1 < words.size()) {
      out.options.push_back(words[++i]);
    }
  }
  return out;
}

}  // namespace

Arguments::Parsed Arguments::parse(const std::vector<std::string>& words) {
  CLI::App& app = impl_->app;
  Words read = apart(app, words);
  std::reverse(read.options.begin(), read.options.end());  // as CLI11 wants them
  try {
    app.parse(std::move(read.options));
  } catch (const CLI::CallForHelp&) {
    return Parsed::help_wanted;
  } catch (const CLI::ExtrasError&) {
    throw Unread{app.remaining().front(), ""};
  } catch (const CLI::ParseError& error) {
    throw Unread{"", error.what()};
  }
  if (impl_->positionals != nullptr) {
    *impl_->positionals = std::move(read.positionals);
  } else if (!read.positionals.empty()) {
    throw Unread{read.positionals.front(), ""};
  }
  return Parsed::done;
}

}  // namespace loadstone::cli
