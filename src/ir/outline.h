// What a picture of a graph shows, so that a person can read it: repeated layers once, and a long list of nodes in parts, which
// hold parts again where there are many.
//
//     embed, ln, attn, mlp, ln, attn, mlp, …, head      →      embed, [ln, attn, mlp] × 12, head
//
// Repeats are runs of the execution order in which nodes with the same operator, attributes, types and near operands come again
// after the same number of nodes. Parts are cut where few values cross. n log n in the nodes.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/module.h"

namespace anfora::ir {

struct OutlineItem {
  enum class Kind : uint8_t { Node, Repeat, Part };
  Kind kind = Kind::Node;
  const Apply* node = nullptr;      // of a Node; of a Repeat and a Part the first one
  std::vector<OutlineItem*> items;  // of a Repeat, the first time; of a Part
  size_t count = 1;                 // of a Repeat: how often
  size_t num_nodes = 1;             // that it stands for
  std::string number;               // of a Part: "3", "3.2"
  OutlineItem* outer = nullptr;
};

struct OutlineOptions {
  bool collapse = true;   // else every node is an item
  size_t first_part = 1;  // parts are numbered from here
};

class Outline {
 public:
  // Of nodes in execution order.
  Outline(std::span<Apply* const> nodes, const OutlineOptions& options);

  std::span<OutlineItem* const> items() const { return top_; }
  // The item of a node that stands for it, also where it belongs to a later time of a Repeat; null for other nodes.
  OutlineItem* item_of(const Apply& node) const;
  // Whether the nodes are of different times of one Repeat, at any depth: a value that goes from layer to layer.
  bool is_carried(const Apply& from, const Apply& to) const;
  size_t next_part() const { return next_part_; }

 private:
  void build();
  void split(std::vector<OutlineItem*>& items, OutlineItem* outer, const std::string& prefix);
  OutlineItem* make(OutlineItem::Kind kind, OutlineItem* outer);

  std::span<Apply* const> nodes_;
  bool collapses_;
  size_t next_part_;
  boost::unordered_flat_map<const Apply*, size_t> position_;
  std::vector<OutlineItem*> by_position_;
  std::vector<std::unique_ptr<OutlineItem>> all_;
  std::vector<OutlineItem*> top_;
};

}  // namespace anfora::ir
