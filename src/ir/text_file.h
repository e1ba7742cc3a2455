// Modules as files: NAME.ir, and NAME.ir.data for the constants that are too large for the text. Several texts in one
// folder may share the file constants.data instead.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "ir/module.h"
#include "ir/sidecar.h"

namespace anfora::ir {

// The shared file's name.
inline constexpr std::string_view kSharedConstants = "constants.data";

// Throws NotFound, Io, and what parse() throws. Constants stay in the mapped file.
std::unique_ptr<Module> read_text_file(Context& context, const std::filesystem::path& path);

// Each file appears whole or not at all. Returns the bytes written. Throws Io.
uint64_t write_text_file(const Module& module, const std::filesystem::path& path);
uint64_t write_sidecar(const Sidecar& sidecar, const std::filesystem::path& path);

}  // namespace anfora::ir
