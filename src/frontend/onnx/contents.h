// What a model's file contains, read without importing it: weights are not touched.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace anfora::onnx {

// Nodes by operator, qualified by its domain where that is not ONNX's main one: every NodeProto of the graph, of the bodies of
// If, Loop and Scan (at any depth), and of the model's functions; Constant nodes too. This is the count of every report. A module
// has other nodes: control flow becomes functions, Constants become values.
using NodeCounts = std::map<std::string, size_t, std::less<>>;

struct Contents {
  NodeCounts nodes;
  std::set<std::string, std::less<>> data_files;  // external data, as the tensors name it
};

// Both throw as import_onnx() does.
Contents read_contents(std::string_view bytes);
Contents read_contents(const std::filesystem::path& path);

}  // namespace anfora::onnx
