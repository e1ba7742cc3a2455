// A class that a compiled function defines.
#pragma once

#include "frontend/python/lower/object.h"

namespace anfora::python {

// Methods of which the attributes of an instance would depend.
inline constexpr std::string_view kRefusedMethods[] = {"__new__", "__getattr__", "__getattribute__", "__setattr__", "__delattr__"};

class ProgramClass : public Live, public std::enable_shared_from_this<ProgramClass> {
 public:
  // `base`: null where it has none but object. `is_python`: it is an exception of Python's own.
  ProgramClass(std::string name, std::shared_ptr<const Live> base, bool is_python = false)
      : name_(std::move(name)), base_(std::move(base)), is_python_(is_python) {}

  std::string describe() const override { return name_; }
  std::optional<Object> attribute(const std::string& name) const override;
  std::optional<Object> overload(std::span<const std::string>) const override { return std::nullopt; }
  std::vector<std::string> fields() const override { return {}; }
  bool is_a(const Live& type) const override;
  bool is_a(std::string_view type) const override;
  bool is_base_of(std::string_view) const override { return false; }
  const void* identity() const override { return this; }
  bool is_equal_by_identity() const override { return true; }
  std::optional<Member> member(const std::string& name, const Live* after) const override;
  void require_instances() const override;

  bool is_python() const { return is_python_; }

  std::vector<std::pair<std::string, Member>> members;

 private:
  std::string name_;
  std::shared_ptr<const Live> base_;
  bool is_python_;
};

}  // namespace anfora::python
