#include "frontend/python/exits.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "frontend/python/scope.h"

namespace anfora::python {
namespace {

struct Exception {
  std::string_view name, base;
};
constexpr Exception kExceptions[] = {
    {"BaseException", ""},
    {"Exception", "BaseException"},
    {"GeneratorExit", "BaseException"},
    {"KeyboardInterrupt", "BaseException"},
    {"SystemExit", "BaseException"},
    {"ArithmeticError", "Exception"},
    {"FloatingPointError", "ArithmeticError"},
    {"OverflowError", "ArithmeticError"},
    {"ZeroDivisionError", "ArithmeticError"},
    {"AssertionError", "Exception"},
    {"AttributeError", "Exception"},
    {"BufferError", "Exception"},
    {"EOFError", "Exception"},
    {"ImportError", "Exception"},
    {"ModuleNotFoundError", "ImportError"},
    {"LookupError", "Exception"},
    {"IndexError", "LookupError"},
    {"KeyError", "LookupError"},
    {"MemoryError", "Exception"},
    {"NameError", "Exception"},
    {"UnboundLocalError", "NameError"},
    {"OSError", "Exception"},
    {"FileExistsError", "OSError"},
    {"FileNotFoundError", "OSError"},
    {"PermissionError", "OSError"},
    {"TimeoutError", "OSError"},
    {"ReferenceError", "Exception"},
    {"RuntimeError", "Exception"},
    {"NotImplementedError", "RuntimeError"},
    {"RecursionError", "RuntimeError"},
    {"StopIteration", "Exception"},
    {"SyntaxError", "Exception"},
    {"SystemError", "Exception"},
    {"TypeError", "Exception"},
    {"ValueError", "Exception"},
    {"UnicodeError", "ValueError"},
};

const Exception* python_exception(std::string_view name) {
  const auto* found = std::ranges::find(kExceptions, name, &Exception::name);
  return found == std::end(kExceptions) ? nullptr : found;
}

// Whether a name is read in these statements, functions inside of them included.
bool reads(const Tree::Trees& statements, const std::string& name) {
  const std::function<bool(const Tree&)> is_read = [&](const Tree& tree) {
    if (tree.is(Kind::Name) && tree.text("id") == name) return !tree.child("ctx")->is(Kind::Store);
    bool found = false;
    for_each_child(tree, [&](const Tree& child) { found = found || is_read(child); });
    return found;
  };
  return std::ranges::any_of(statements, [&](const Tree* statement) { return is_read(*statement); });
}

class Expander {
 public:
  explicit Expander(Source& source) : source_(source) {}

  Tree::Trees rewritten(const Tree::Trees& statements) {
    Tree::Trees out;
    for (Tree* s : statements) statement(*s, out);
    return out;
  }

 private:
  // What a way out passes, from the outside in.
  struct Frame {
    enum class Kind : uint8_t { Loop, Finally, Context, Handlers } kind;
    Tree::Trees body = {};             // of a finally
    std::string manager = {};          // the variable of a context
    Tree::Trees types = {};            // of handlers, null for all; …
    std::vector<std::string> labels = {};  // … the regions whose end they stand behind …
    std::vector<std::string> names = {};   // … and the variables in which they read the exception; empty: in none
  };
  using K = Frame::Kind;

  Tree* make(Kind kind, const Tree& at, std::vector<std::pair<std::string, Tree::Field>> fields) {
    Tree* made = source_.make(kind, at.position);
    made->fields = std::move(fields);
    return made;
  }
  Tree* name(const std::string& id, Kind context, const Tree& at) {
    return make(Kind::Name, at, {{"id", id}, {"ctx", source_.make(context, at.position)}});
  }
  Tree* assignment(const std::string& id, Tree* value) {
    return make(Kind::Assign, *value, {{"targets", Tree::Trees{name(id, Kind::Store, *value)}}, {"value", value}});
  }
  Tree* leave(const std::string& label, const Tree& at) { return make(Kind::Leave, at, {{"label", label}}); }
  std::string next_label() { return std::to_string(++labels_); }

  Tree* copy(const Tree& tree) {
    Tree* made = source_.make(tree.kind, tree.position);
    made->name = tree.name;
    made->constant = tree.constant;
    made->fields = tree.fields;
    for (auto& [field, value] : made->fields) {
      if (Tree** one = std::get_if<Tree*>(&value); one && *one) *one = copy(**one);
      if (auto* many = std::get_if<Tree::Trees>(&value)) *many = copies(*many);
    }
    return made;
  }
  Tree::Trees copies(const Tree::Trees& trees) {
    Tree::Trees made;
    for (const Tree* tree : trees) made.push_back(tree ? copy(*tree) : nullptr);
    return made;
  }

  void rewrite(Tree& s, std::string_view field) {
    if (Tree::Field* body = s.find(field)) *body = rewritten(std::get<Tree::Trees>(*body));
  }

  void statement(Tree& s, Tree::Trees& out) {
    switch (s.kind) {
      case Kind::If:
        for (std::string_view field : {"body", "orelse"}) rewrite(s, field);
        break;
      case Kind::While:
      case Kind::For:
        frames_.push_back({.kind = K::Loop});
        rewrite(s, "body");
        frames_.pop_back();
        rewrite(s, "orelse");
        break;
      case Kind::Match:
        for (Tree* part : s.list("cases")) rewrite(*part, "body");
        break;
      case Kind::Try: return expand_try(s, out);
      case Kind::With: return expand_with(s, 0, out);
      case Kind::Return: return leave_function(s, out);
      case Kind::Break:
      case Kind::Continue: {
        size_t depth = frames_.size();
        while (depth > 0 && frames_[depth - 1].kind != K::Loop) --depth;
        leave_frames(depth, false, s, out);
        break;
      }
      case Kind::Raise: return expand_raise(s, raised_class(s), out);
      case Kind::Assert: {
        constexpr const char* kRaised = "AssertionError";
        if (!handler_of(kRaised, s)) break;
        Tree* raised = name(kRaised, Kind::Load, s);
        if (Tree* message = s.child("msg")) raised = make(Kind::Call, s, {{"func", raised}, {"args", Tree::Trees{message}}, {"keywords", Tree::Trees{}}});
        Tree* raise = make(Kind::Raise, s, {{"exc", raised}});
        Tree::Trees failed;
        expand_raise(*raise, kRaised, failed);
        Tree* test = make(Kind::UnaryOp, *s.child("test"), {{"op", source_.make(Kind::Not, s.position)}, {"operand", s.child("test")}});
        out.push_back(make(Kind::If, s, {{"test", test}, {"body", failed}, {"orelse", Tree::Trees{}}}));
        return;
      }
      default: require_no_yield(s);
    }
    out.push_back(&s);
  }

  // A generator that nobody asks any more would have to run what guards its way out.
  void require_no_yield(const Tree& s) const {
    if (!s.is_any({Kind::Expr, Kind::Assign, Kind::AnnAssign}) || !is_guarded()) return;
    const Tree* value = s.child("value");
    if (!value || !value->is_any({Kind::Yield, Kind::YieldFrom})) return;
    throw source_.error(ErrorCode::Unsupported, *value, "yield in a try or with is not supported").with_hint("yield behind it, and keep the value in a variable");
  }
  bool is_guarded() const {
    return std::ranges::any_of(frames_, [](const Frame& frame) { return frame.kind != K::Loop; });
  }

  // What stands on the way out of the frames from `depth` on.
  void leave_frames(size_t depth, bool raises, const Tree& at, Tree::Trees& out) {
    const std::vector<Frame> all = frames_;
    while (frames_.size() > depth) {
      const Frame frame = std::move(frames_.back());
      frames_.pop_back();
      if (frame.kind == K::Finally) std::ranges::copy(rewritten(copies(frame.body)), std::back_inserter(out));
      if (frame.kind == K::Context) out.push_back(exit_of(frame.manager, raises, at));
    }
    frames_ = all;
  }

  Tree* exit_of(const std::string& manager, bool raises, const Tree& at) {
    Tree* exit = make(Kind::ContextExit, at, {{"manager", name(manager, Kind::Load, at)}});
    if (raises) exit->fields.emplace_back("raises", std::string("True"));
    return make(Kind::Expr, at, {{"value", exit}});
  }

  void leave_function(Tree& s, Tree::Trees& out) {
    const bool has_cleanup = std::ranges::any_of(frames_, [](const Frame& f) { return f.kind == K::Finally || f.kind == K::Context; });
    if (!has_cleanup) return out.push_back(&s);
    Tree* value = s.child("value");
    if (value && !value->is(Kind::Constant)) {  // it is evaluated before
      const std::string kept = fmt::format(".returned{}", s.position.line);
      out.push_back(assignment(kept, value));
      value = name(kept, Kind::Load, *value);
    }
    leave_frames(0, false, s, out);
    out.push_back(make(Kind::Return, s, {}));
    if (value) out.back()->fields.emplace_back("value", value);
  }

  // The frame whose handlers take an exception, and the label of the handler.
  struct Handler {
    size_t frame;
    std::string label, name;
  };
  std::optional<Handler> handler_of(const std::string& exception, const Tree& at) const {
    for (size_t f = frames_.size(); f-- > 0;) {
      for (size_t h = 0; h < frames_[f].types.size(); ++h) {
        const Catches answer = catches(frames_[f].types[h], exception);
        if (answer == Catches::Unknown) {
          throw source_
              .error(ErrorCode::Unsupported, at,
                     fmt::format("whether 'except {}' takes this cannot be told", frames_[f].types[h] ? unparse(*frames_[f].types[h]) : ""))
              .with_hint("raise and except the same class, or classes of Python");
        }
        if (answer == Catches::Yes) return Handler{f, frames_[f].labels[h], frames_[f].names[h]};
      }
    }
    return std::nullopt;
  }

  void expand_raise(Tree& s, const std::string& exception, Tree::Trees& out) {
    const std::optional<Handler> handler = handler_of(exception, s);
    const bool is_read = handler && !handler->name.empty();
    const std::string raised = fmt::format(".raised{}_{}", s.position.line, s.position.column);
    if (is_read) out.push_back(assignment(raised, made_exception(s)));  // before what stands on the way
    leave_frames(handler ? handler->frame + 1 : 0, true, s, out);
    if (is_read) out.push_back(assignment(handler->name, name(raised, Kind::Load, s)));
    out.push_back(handler ? leave(handler->label, s) : &s);
  }

  // A class is called without arguments.
  Tree* made_exception(Tree& raise) {
    Tree* exception = raise.child("exc");
    if (!exception->is_any({Kind::Name, Kind::Attribute})) return exception;
    return make(Kind::Call, *exception, {{"func", exception}, {"args", Tree::Trees{}}, {"keywords", Tree::Trees{}}});
  }

  void expand_try(Tree& s, Tree::Trees& out) {
    const Tree::Trees final = s.list("finalbody");
    if (!final.empty()) frames_.push_back({.kind = K::Finally, .body = final});
    if (s.list("handlers").empty()) {
      std::ranges::copy(rewritten(s.list("body")), std::back_inserter(out));
    } else {
      const std::string behind = next_label();
      Frame handlers{.kind = K::Handlers};
      for (const Tree* handler : s.list("handlers")) {
        const std::string& bound = handler->text("name");
        handlers.types.push_back(handler->child("type"));
        handlers.names.push_back(!bound.empty() && reads(handler->list("body"), bound) ? bound : "");
        handlers.labels.push_back(next_label());
      }
      frames_.push_back(handlers);
      Tree* guarded = make(Kind::Guarded, s, {{"body", rewritten(s.list("body"))}, {"types", handlers.types}});
      frames_.pop_back();
      Tree::Trees inside{guarded};
      std::ranges::copy(rewritten(s.list("orelse")), std::back_inserter(inside));
      inside.push_back(leave(behind, s));
      for (size_t h = 0; h < handlers.labels.size(); ++h) {
        const Tree& handler = *s.list("handlers")[h];
        Tree* region = make(Kind::Region, handler, {{"label", handlers.labels[h]}, {"body", inside}});
        inside = {region};
        const std::string& bound = handler.text("name");
        if (!bound.empty() && handlers.names[h].empty())  // nobody reads it
          inside.push_back(assignment(bound, source_.make_constant({NoneValue()}, handler.position)));
        std::ranges::copy(rewritten(handler.list("body")), std::back_inserter(inside));
        if (!bound.empty()) inside.push_back(make(Kind::Delete, handler, {{"targets", Tree::Trees{name(bound, Kind::Del, handler)}}}));
        inside.push_back(leave(behind, handler));
      }
      out.push_back(make(Kind::Region, s, {{"label", behind}, {"body", inside}}));
    }
    if (final.empty()) return;
    frames_.pop_back();
    std::ranges::copy(rewritten(copies(final)), std::back_inserter(out));
  }

  void expand_with(Tree& s, size_t item, Tree::Trees& out) {
    const Tree& context = *s.list("items")[item];
    Tree* value = context.child("context_expr");
    const std::string manager = fmt::format(".manager{}_{}", value->position.line, value->position.column);
    out.push_back(assignment(manager, value));
    Tree* entered = make(Kind::ContextEnter, *value, {{"manager", name(manager, Kind::Load, *value)}});
    Tree* target = context.child("optional_vars");
    out.push_back(target ? make(Kind::Assign, *target, {{"targets", Tree::Trees{target}}, {"value", entered}})
                         : make(Kind::Expr, *value, {{"value", entered}}));
    frames_.push_back({.kind = K::Context, .manager = manager});
    if (item + 1 < s.list("items").size()) {
      expand_with(s, item + 1, out);
    } else {
      std::ranges::copy(rewritten(s.list("body")), std::back_inserter(out));
    }
    frames_.pop_back();
    out.push_back(exit_of(manager, false, *value));
  }

  Source& source_;
  std::vector<Frame> frames_;
  int labels_ = 0;
};

}  // namespace

std::optional<std::string> base_of_exception(std::string_view name) {
  const Exception* exception = python_exception(name);
  return exception ? std::optional(std::string(exception->base)) : std::nullopt;
}

std::string raised_class(const Tree& raise) {
  const Tree* exception = raise.child("exc");
  if (exception && exception->is(Kind::Call)) exception = exception->child("func");
  return exception && exception->is_any({Kind::Name, Kind::Attribute}) ? unparse(*exception) : "";
}

Catches catches(const Tree* type, const std::string& exception) {
  if (!type) return Catches::Yes;
  if (type->is(Kind::Tuple)) {
    Catches answer = Catches::No;
    for (const Tree* one : type->list("elts")) {
      const Catches own = catches(one, exception);
      if (own == Catches::Yes) return own;
      if (own == Catches::Unknown) answer = own;
    }
    return answer;
  }
  const std::string handled = unparse(*type);
  if (handled == exception) return Catches::Yes;
  const Exception *own = python_exception(handled), *raised = python_exception(exception);
  if (own && raised) {
    while (raised && raised != own) raised = python_exception(raised->base);
    return raised ? Catches::Yes : Catches::No;
  }
  if (handled == "BaseException" || (handled == "Exception" && !exception.empty())) return Catches::Yes;
  return raised ? Catches::No : Catches::Unknown;  // a class of the program is no base of Python's
}

void expand_exits(Source& source, const Tree& function) {
  bool is_needed = false;
  for_each_own(function, [&](const Tree& tree) { is_needed = is_needed || tree.is_any({Kind::Try, Kind::With}); });
  if (!is_needed) return;
  Tree::Field* body = const_cast<Tree&>(function).find("body");
  *body = Expander(source).rewritten(std::get<Tree::Trees>(*body));
}

}  // namespace anfora::python
