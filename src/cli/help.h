// How --help looks, and what is said to wrong arguments.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Formatter.hpp>
#include <string>

#include "anfora/error.h"

namespace anfora::cli {

// Descriptions wrapped to the width of a terminal, values by their names: "--seed N", "-o,--output FILE".
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* command) const override;
};

// With the command or the option that was probably meant.
Error wrong_arguments(const CLI::App& app, int argc, char** argv, const CLI::ParseError& error);

}  // namespace anfora::cli
