// The object that several are, with leaves where they differ.
#pragma once

#include "frontend/python/lower/lowering.h"

namespace anfora::python {

// Objects of several paths are one where they have one structure; the tensors and numbers in it may differ, and are the leaves. A first
// pass finds these; a second one, over the same objects, puts the nodes that they became in their place.
class Lowering::Union {
 public:
  // `graph`: where the result is to be visible.
  Union(Lowering& lowering, ir::Graph* graph) : lowering_(lowering), emit_(lowering.emit_), graph_(graph) {}

  std::vector<Leaf> leaves;           // found by the first pass
  std::string name;                   // of the variable, for messages
  std::vector<const Tree*> bound_at;  // by state
  bool is_forced = false;             // every tensor and number is a leaf, also those that agree
  // Whose content it is: of a list, which is a sequence where its length differs; of a dict, whose keys stay known; of an instance, whose
  // attributes have names.
  std::optional<Cell::Kind> held_in;

  Object unite(const std::vector<Object>& objects);
  // Lists and dicts may be others in each of these states: they become new ones. `others`: those that something refers to which is not united.
  void merge_cells(std::span<const State> states, std::set<size_t> others);
  // The content of the new ones. Comes after all else is united.
  void unite_contents(State& united);
  std::set<size_t> merged() const;
  // Begins the second pass.
  void substitute(std::span<ir::Node* const> nodes);

 private:
  template <class F>
  std::shared_ptr<const Items> parts(const std::vector<Object>& objects, F&& items);
  Object attributes(const std::vector<Object>& objects);
  Object leaf(const std::vector<Object>& objects, const ir::Type* type, bool is_number);
  bool agree(const std::vector<Object>& objects) const;
  Object suspended(const std::vector<Object>& objects);
  Object at_several_blocks(const std::vector<Object>& objects);
  std::optional<Object> placeholder(const Object& like) const;
  Object cell(const std::vector<Object>& objects);
  void freeze(const std::vector<size_t>& ids);
  Object closure(const std::vector<Object>& objects);
  Object choice(const std::vector<Object>& objects);
  Object with_defaults(const std::vector<std::optional<Object>>& functions);
  Object text(const std::vector<Object>& objects);
  Object number_or_tensor(const std::vector<Object>& objects);
  Object sequence(const std::vector<Object>& objects);
  const ir::Type* item_type(const Object& item, const std::vector<Object>& objects);
  [[noreturn]] void differ(const std::vector<Object>& objects);

  Lowering& lowering_;
  Emitter& emit_;
  ir::Graph* graph_;
  std::span<ir::Node* const> nodes_;
  size_t next_ = 0;
  bool has_nodes_ = false;

  std::span<const State> states_;
  std::set<size_t> others_;
  std::map<std::pair<size_t, size_t>, std::vector<size_t>> united_with_;  // by state and cell: those of all states
  std::map<std::vector<size_t>, Cell> merged_;
  std::vector<std::vector<size_t>> merged_order_;
  std::vector<size_t> kept_;  // cells that not all states have, of functions that a run chooses
};

// The same object, of those that the compiler tells by what they are and not by what is in them.
bool is_same(const Object& a, const Object& b);
// The same function, but for the values of parameters that a call leaves out.
bool is_same_but_for_defaults(const Object& a, const Object& b);

// A list whose length a run decides; one of known length is a tuple in its cell.
bool is_sequence(const Object& object);

}  // namespace anfora::python
