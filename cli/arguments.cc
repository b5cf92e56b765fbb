#include "cli/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"

namespace loadstone::cli {

struct Arguments::Impl {
  Impl(const std::string& verb, const std::string& summary) : app(summary, "loadstone " + verb) {}
  CLI::App app;
};

Arguments::Arguments(const std::string& verb, const std::string& summary, const std::string& examples)
    : impl_(std::make_unique<Impl>(verb, summary)) {
  impl_->app.footer("Examples:\n" + examples);
  impl_->app.get_formatter()->column_width(34);
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
  const auto add = [&target](const std::vector<std::string>& values) { target = values; };
  impl_->app.add_option_function<std::vector<std::string>>(name, add, description)
      ->type_name("")
      ->allow_extra_args(false);
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

/// CLI11 would take the next word for the value of `--spec=`, so `--name=value` becomes two words where the option
/// takes a value. Words after `--` stay as they are.
std::vector<std::string> apart(const CLI::App& app, const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--") {
      out.insert(out.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
      break;
    }
    const std::size_t equals = words[i].find('=');
    const std::string name = words[i].substr(0, equals);
    const CLI::Option* option = name.starts_with("--") && name.size() > 2 ? app.get_option_no_throw(name) : nullptr;
    const bool takes_value = option != nullptr && option->get_items_expected_min() > 0;
    if (takes_value && equals != std::string::npos) {
      out.push_back(name);
      out.push_back(words[i].substr(equals + 1));
    } else {
      out.push_back(words[i]);
      if (takes_value && i + 1 < words.size()) out.push_back(words[++i]);
    }
  }
  return out;
}

}  // namespace

Arguments::Parsed Arguments::parse(const std::vector<std::string>& words) {
  CLI::App& app = impl_->app;
  std::vector<std::string> reversed = apart(app, words);
  std::reverse(reversed.begin(), reversed.end());  // as CLI11 wants them
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    return Parsed::help_wanted;
  } catch (const CLI::ExtrasError&) {
    const std::vector<std::string> left = app.remaining();
    const auto is_option = [](const std::string& word) { return word.size() > 1 && word.starts_with("-"); };
    const auto found = std::find_if(left.begin(), left.end(), is_option);
    throw Unread{found != left.end() ? *found : left.front(), ""};
  } catch (const CLI::ParseError& error) {
    throw Unread{"", error.what()};
  }
  return Parsed::done;
}

}  // namespace loadstone::cli
