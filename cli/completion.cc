
#include "cli/verb.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"

namespace loadstone::cli {
namespace {

void add(Arguments& args, Options& options) {
  args.positionals("SHELL", options.paths, "bash, zsh or fish");
}

std::string words_of(const Verb& verb) {
  return join(option_names(verb), " ");
}

std::string verb_words() {
  std::vector<std::string> names;
  for (const Verb* verb : all_verbs()) names.emplace_back(verb->name);
  return join(names, " ");
}

std::string bash_script() {
  std::string cases;
  for (const Verb* verb : all_verbs()) cases += cat("    ", verb->name, ") words='", words_of(*verb), "' ;;\n");
  return cat(
      "# bash completion of loadstone: eval \"$(loadstone completion bash)\"\n"
      "_loadstone() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} words=''\n"
      "  COMPREPLY=()\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    COMPREPLY=($(compgen -W '",
      verb_words(),
      " --help --version' -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  [[ $word == -* ]] || return 0\n"
      "  case ${COMP_WORDS[1]} in\n",
      cases,
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
      "}\n"
      "complete -o default -o bashdefault -F _loadstone loadstone\n");
}

std::string zsh_script() {
  std::string verbs, cases;
  for (const Verb* verb : all_verbs()) {
    verbs += cat("    '", verb->name, ":", verb->summary, "'\n");
    cases += cat("    ", verb->name, ") options=(", words_of(*verb), ") ;;\n");
  }
  return cat(
      "#compdef loadstone\n"
      "# zsh completion of loadstone: eval \"$(loadstone completion zsh)\"\n"
      "_loadstone() {\n"
      "  local -a verbs options\n"
      "  verbs=(\n",
      verbs,
      "  )\n"
      "  if ((CURRENT == 2)); then\n"
      "    _describe verb verbs\n"
      "    return\n"
      "  fi\n"
      "  case ${words[2]} in\n",
      cases,
      "  esac\n"
      "  if [[ ${words[CURRENT]} == -* ]]; then\n"
      "    compadd -- $options\n"
      "  else\n"
      "    _files\n"
      "  fi\n"
      "}\n"
      "compdef _loadstone loadstone\n");
}

std::string fish_script() {
  std::string out = "# fish completion of loadstone: loadstone completion fish | source\n";
  for (const Verb* verb : all_verbs()) {
    out += cat("complete -c loadstone -n __fish_use_subcommand -a ", verb->name, " -d '", verb->summary, "'\n");
    for (const std::string& option : option_names(*verb)) {
      out += cat("complete -c loadstone -n '__fish_seen_subcommand_from ", verb->name, "' -l ", option.substr(2), "\n");
    }
  }
  return out;
}

int run(Session& session) {
  const std::vector<std::string>& shells = session.options.paths;
  if (shells.size() != 1) throw usage_error(cat("expected one shell (bash, zsh or fish), found ", shells.size()));
  const std::string& shell = shells.front();
  if (shell == "bash") {
    session.text = bash_script();
  } else if (shell == "zsh") {
    session.text = zsh_script();
  } else if (shell == "fish") {
    session.text = fish_script();
  } else {
    throw usage_error(cat("unknown shell '", printable(shell), "': known are bash, zsh, fish"),
                      {.file = "", .expected = "bash, zsh or fish", .found = printable(shell)});
  }
  session.json["shell"] = shell;
  session.json["script"] = session.text;
  return kGood;
}

}  // namespace

extern const Verb completion_verb;
const Verb completion_verb{"completion", "Print a script that completes verbs and options in your shell",
                           "  eval \"$(loadstone completion bash)\"\n"
                           "  loadstone completion fish > ~/.config/fish/completions/loadstone.fish\n",
                           add, run};

}  // namespace loadstone::cli
