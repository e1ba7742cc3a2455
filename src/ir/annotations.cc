#include "ir/annotations.h"

#include "support/hash.h"

namespace anfora::ir {

size_t Annotations::KeyHash::operator()(const Key& key) const {
  uint64_t h = hash_combine(hash_bytes(key.place.data(), key.place.size()), static_cast<uint64_t>(key.index));
  return hash_combine(h, hash_bytes(key.name.data(), key.name.size()));
}

void Annotations::set(Table& table, Key key, Annotation annotation) {
  static const auto kEmpty = std::make_shared<const Annotation>();  // most values are declared and nothing else
  key.place = context_->string(key.place);
  key.name = context_->string(key.name);
  table[key] = annotation.empty() ? kEmpty : std::make_shared<const Annotation>(std::move(annotation));
}

const Annotation* Annotations::find(const Table& table, const Key& key) {
  if (table.empty()) return nullptr;
  auto found = table.find(key);
  return found == table.end() ? nullptr : found->second.get();
}

void Annotations::set_node(const Location& location, Annotation annotation) {
  set(nodes_, {location.file, location.name, location.index}, std::move(annotation));
}

const Annotation* Annotations::of_node(const Node& node) const {
  if (nodes_.empty()) return nullptr;
  const Location* l = node.location();
  return l ? find(nodes_, {l->file, l->name, l->index}) : nullptr;
}

void Annotations::set_value(std::string_view place, std::string_view name, Annotation annotation) {
  set(values_, {place, name}, std::move(annotation));
}

const Annotation* Annotations::of_value(std::string_view place, std::string_view name) const {
  return find(values_, {place, name});
}

const Annotation* Annotations::of_value(const Node& node) const {
  return node.location() && !node.name().empty() ? of_value(node.location()->file, node.name()) : nullptr;
}

void Annotations::set_input(std::string_view name, Annotation annotation) {
  if (!annotation.empty()) set(inputs_, {{}, name}, std::move(annotation));
}

void Annotations::set_output(std::string_view name, Annotation annotation) {
  if (!annotation.empty()) set(outputs_, {{}, name}, std::move(annotation));
}

}  // namespace anfora::ir
