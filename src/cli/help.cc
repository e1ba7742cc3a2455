#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "support/nearest.h"

namespace anfora::cli {
namespace {

constexpr size_t kNames = 30, kDescription = 70;  // columns

std::string wrapped(std::string_view text) {
  std::string lines;
  while (text.size() > kDescription) {
    size_t end = text.rfind(' ', kDescription);
    if (end == std::string_view::npos) break;
    lines += fmt::format("{}\n", text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines += text;
}

std::vector<std::string> names_of_options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// The first argument that looks like an option and is none.
std::string unknown_option(const std::vector<std::string>& known, int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    const std::string name = std::string(argv[i]).substr(0, std::string_view(argv[i]).find('='));
    if (name == "--") return "";
    if (name.starts_with("--") && !std::ranges::count(known, name)) return name;
  }
  return "";
}

}  // namespace

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  if (option->get_type_size() == 0) return "";
  std::string type = option->get_type_name();
  if (const size_t colon = type.find(':'); colon != std::string::npos) {
    // "TEXT:{keep,all}", "INT:NONNEGATIVE"
    type = type[colon + 1] == '{' ? type.substr(colon + 1) : type.substr(0, colon);
  }
  if (type == "INT" || type == "UINT") type = "N";
  if (type == "FLOAT") type = "X";
  return " " + type + (option->get_expected_max() == CLI::detail::expected_max_vector_size ? " ..." : "");
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  std::string text = option->get_description();
  if (!option->get_default_str().empty()) text += fmt::format(" (default: {})", option->get_default_str());
  if (option->get_required() && option->nonpositional()) text += " (required)";
  return wrapped(text);
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  std::string line = fmt::format("  {:<{}}", command->get_name(), kNames - 2);
  for (char c : wrapped(command->get_description())) {
    line += c;
    if (c == '\n') line.append(kNames, ' ');
  }
  return line + '\n';
}

Error wrong_arguments(const CLI::App& app, int argc, char** argv, const CLI::ParseError& error) {
  auto wrong = [](const std::string& message) { return Error(ErrorCode::InvalidArgument, message); };
  const std::string first = argc > 1 ? argv[1] : "";
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands({})) commands.push_back(command->get_name());
  if (first.empty() || first.starts_with('-')) return wrong(error.what()).with_hint("anfora --help");
  if (!std::ranges::count(commands, first)) {
    std::string_view meant = nearest_name(first, commands);
    return wrong(fmt::format("unknown command '{}'", first))
        .with_hint(meant.empty() ? "anfora --help lists the commands" : fmt::format("did you mean {}?", meant));
  }
  const std::vector<std::string> known = names_of_options(*app.get_subcommand(first));
  if (std::string unknown = unknown_option(known, argc, argv); !unknown.empty()) {
    std::string_view meant = nearest_name(unknown, known);
    return wrong(fmt::format("{} has no option {}", first, unknown))
        .with_hint(meant.empty() ? fmt::format("anfora {} --help", first) : fmt::format("did you mean {}?", meant));
  }
  return wrong(error.what()).with_hint(fmt::format("anfora {} --help", first));
}

}  // namespace anfora::cli
