#include "cli/command_line.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "anfora/error.h"
#include "anfora/version.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/interruption.h"

namespace {

using namespace anfora;

constexpr const char* kFooter = R"(
Examples:
  anfora info model.onnx
  anfora opt model.onnx -o small.onnx
  anfora explain model.onnx
  anfora run model.onnx --input in.npz --output out.npz
  anfora verify model.onnx small.onnx

Exit codes:
   0  success
   1  opt, verify: the results differ; diff: the graphs do
   2  wrong options
   3  a model or a file is missing, broken or does not fit
   4  valid, but not supported
  70  a defect of Anfora; please report it
 124  the time of --timeout has passed
 130  interrupted (Ctrl-C); 143: terminated

`anfora COMMAND --help` tells more about a command.)";

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::Unsupported: return cli::kUnsupported;
    case ErrorCode::Internal: return cli::kInternal;
    default: return cli::kBadInput;
  }
}

// A standard stream that is closed would be the next file that is opened, and get what is printed. One that cannot be used takes its
// place: reading and writing there fails, as it does on a closed one.
void open_standard_streams() {
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) < 0) open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

// Names in a model may hold line breaks, and what a terminal takes for commands.
std::string on_one_line(std::string_view text) {
  std::string line;
  for (char c : text) {
    const auto code = static_cast<unsigned char>(c);
    line += c == '\n' ? "\\n" : code < 0x20 || code == 0x7f ? fmt::format("\\x{:02x}", code) : std::string(1, c);
  }
  return line;
}

bool is_json = false;  // whether --json was given: then programs get the error on standard output as well

// "invalid_model", as programs read it.
std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::InvalidArgument: return "invalid_argument";
    case ErrorCode::InvalidModel: return "invalid_model";
    case ErrorCode::TypeMismatch: return "type_mismatch";
    case ErrorCode::Unsupported: return "unsupported";
    case ErrorCode::NotFound: return "not_found";
    case ErrorCode::Io: return "io";
    case ErrorCode::ResourceExhausted: return "resource_exhausted";
    case ErrorCode::Internal: return "internal";
  }
  return "";
}

// Location, node and message on one line; then the lines of the source; then the hint. Where nobody listens, the exit code has to do.
void complain(const Error& error) {
  const bool color = isatty(STDERR_FILENO) && !std::getenv("NO_COLOR");
  std::string message = error.message();
  if (!error.node().empty()) message = error.node() + ": " + message;
  if (!error.location().empty()) message = error.location() + ": " + message;
  std::string text = fmt::format("{}anfora: {}{}\n", color ? "\033[31m" : "", color ? "\033[0m" : "", on_one_line(message));
  for (size_t begin = 0; begin < error.excerpt().size();) {
    const size_t end = std::min(error.excerpt().find('\n', begin), error.excerpt().size());
    text += "    " + on_one_line(error.excerpt().substr(begin, end - begin)) + "\n";
    begin = end + 1;
  }
  if (!error.hint().empty()) text += "  hint: " + on_one_line(error.hint()) + "\n";
  std::fputs(text.c_str(), stderr);
}

// The end of a command that failed. Programs that asked for JSON get the error on standard output as well.
int fail(const Error& error, int exit_code) {
  complain(error);
  if (!is_json) return exit_code;
  const nlohmann::ordered_json json = {{"error",
                                        {{"code", to_string(error.code())},
                                         {"message", error.message()},
                                         {"node", error.node()},
                                         {"location", error.location()},
                                         {"excerpt", error.excerpt()},
                                         {"hint", error.hint()}}},
                                       {"exit_code", exit_code}};
  std::fputs((json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n').c_str(), stdout);
  std::fflush(stdout);
  return exit_code;
}

// Throws where something could not be printed, now or before.
void finish_standard_output() {
  errno = 0;
  const bool failed = std::ferror(stdout) != 0;
  if (std::fflush(stdout) != 0 || failed) throw std::system_error(errno ? errno : EIO, std::generic_category());
}

}  // namespace

int anfora::cli::run_command_line(int argc, char** argv) {
  open_standard_streams();
  CancellationScope scope(cli::handle_interruptions());
  CLI::App app{"Anfora, a graph compiler for neural networks: reads ONNX, optimizes, runs, writes ONNX.", "anfora"};
  app.formatter(std::make_shared<cli::HelpFormatter>());
  app.footer(kFooter);
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("anfora ") + ANFORA_VERSION);
  cli::Action chosen;
  for (cli::Action (*add)(CLI::App&) :
       {cli::add_info, cli::add_dump, cli::add_opt, cli::add_run, cli::add_bench, cli::add_verify, cli::add_reduce,
        cli::add_operators, cli::add_passes, cli::add_rules, cli::add_explain, cli::add_diff, cli::add_cfg, cli::add_grad, cli::add_compile}) {
    size_t before = app.get_subcommands({}).size();
    cli::Action action = add(app);
    CLI::App* command = app.get_subcommands({})[before];
    command->callback([&chosen, action] { chosen = action; });
    cli::add_timeout(*command);
  }
  if (argc < 2) {
    fmt::print("{}", app.help());
    return cli::kUsage;
  }
  is_json = std::find(argv, argv + argc, std::string_view("--json")) != argv + argc;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return fail(cli::wrong_arguments(app, argc, argv, error), cli::kUsage);
  }
  try {
    int code = chosen();
    finish_standard_output();
    return code;
  } catch (const cli::UsageError& wrong) {
    return fail(wrong.error, cli::kUsage);
  } catch (const Error& error) {
    return fail(error, exit_code(error.code()));
  } catch (const Cancelled&) {
    return cli::report_interruption();
  } catch (const std::bad_alloc&) {
    return fail(Error(ErrorCode::ResourceExhausted, "out of memory"), cli::kBadInput);
  } catch (const std::filesystem::filesystem_error& error) {
    return fail(Error(ErrorCode::Io, fmt::format("{}: {}", error.path1().string(), error.code().message())), cli::kBadInput);
  } catch (const std::system_error& error) {  // fmt::print's, or the one above
    complain(Error(ErrorCode::Io, "writing to standard output: " + error.code().message()));
    return cli::kBadInput;
  } catch (const std::exception& error) {
    return fail(Error(ErrorCode::Internal, std::string("internal error: ") + error.what()), cli::kInternal);
  }
}
