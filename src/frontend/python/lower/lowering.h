// From control flow graphs to functions of the IR. A function of Python is lowered for the types that it is called with, by walking its
// blocks with the objects that its variables stand for (abstract interpretation over lower/object.h), and emitting nodes on the way:
//
//   a branch             Switch between two functions without parameters, which is called last
//   a join of paths      the parameters of what follows are the variables that the paths disagree on (SSA's φ)
//   a loop               a function that calls itself last; its parameters are what changes from turn to turn
//   a call               the callee's blocks, in its place; a recursive function becomes one of the IR
//
// Where all paths below a branch or loop lead to one place, these functions return what they disagree on, and the text goes on
// behind the call (structured form); else they call on. Appel, "SSA is functional programming", 1998.
//
// Loops are lowered again where the types at their end widen those at their beginning, until both agree: the lattice has few levels.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "anfora/error.h"
#include "frontend/python/cfg.h"
#include "frontend/python/dataflow.h"
#include "frontend/python/lower/classes.h"
#include "frontend/python/lower/emit.h"
#include "frontend/python/lower/object.h"
#include "ir/clone.h"

namespace anfora::python {

// Arguments of a call as they are written: f(a, *b, k=c, **d) with the stars taken apart.
struct Arguments {
  std::vector<Object> positional;
  std::vector<std::pair<std::string, Object>> named;
};

class Lowering {
 public:
  explicit Lowering(ir::Module& module) : emit_(module) {}

  Emitter& emitter() { return emit_; }
  // Goes on in a function of the IR.
  void begin(ir::Graph* graph) { here_ = {.graph = graph}, emit_.set_graph(graph); }
  // A list of these items; a dict of these keys and values in turn.
  Object make_set(const std::vector<Object>& items);
  Object new_list(std::vector<Object> items) { return make_cell(Cell::Kind::List, make_tuple(std::move(items))); }
  Object new_dict(std::vector<Object> pairs) { return make_cell(Cell::Kind::Dict, make_tuple(std::move(pairs))); }
  // What a call gives. Throws Unreached where it never returns.
  Object call(const Object& callee, Arguments arguments);
  // The object behind the effects so far.
  Object after_effects(Object object);
  // A list, dict or tensor that the caller holds: a program that changes it is refused.
  void set_callers(const Object& object);
  // The nodes of the tensors and numbers in an object, in order; lists and dicts as they are now.
  void flatten(const Object& object, std::vector<ir::Node*>& nodes);
  // What is in a list, dict or variable now.
  const Object& content(const Cell& cell) const;
  // The functions of the program that were lowered, in the order of the source.
  std::vector<const Cfg*> functions() const;

  // No path goes on: after a raise, or in a call of a recursive function before anything is known of its result.
  struct Unreached {};

 private:
  struct Local {
    std::optional<Object> object;
    const Tree* bound_at = nullptr;  // for messages
  };
  // A point of the program while it is lowered.
  struct State {
    ir::Graph* graph = nullptr;      // what follows is emitted here
    std::vector<Local> locals;       // of the function: its variables, the iterators of its loops, its result
    std::map<size_t, Object> store;  // the content of cells; that of 0 is the token of effects
  };
  struct Activation;
  class Entered;
  class InRegion;
  struct Recursion;
  struct RecursionFound {
    const Closure* closure;
  };
  // A generator stands elsewhere after a turn of a loop than before.
  struct PositionFound {};

  // Leaves: the tensors and numbers in which states that join may differ.
  struct Leaf {
    std::vector<Object> sources;  // one of each state
    const ir::Type* type = nullptr;
    bool is_number = false;
    std::vector<int64_t> functions;  // which of them a number may stand for
    // Whether it may take what the other one takes.
    bool is_like(const Leaf& other) const {
      return type == other.type && is_number == other.is_number && std::ranges::includes(functions, other.functions);
    }
  };
  class Union;
  struct Changes {  // in a loop
    Set slots;
    std::set<size_t> cells;
  };

  // Control flow (blocks.cc, join.cc)
  Object run(const Closure& closure, std::vector<Local> locals, const Cfg& cfg);
  void prepare(Activation& activation) const;
  void process(const std::vector<size_t>& blocks, std::optional<size_t> header, ir::Graph* root);
  void lower_block(size_t block);
  void lower_loop(size_t header);
  std::vector<Leaf> loop_leaves(ir::Graph* outside, std::span<const State> turns, const Changes& changes);
  struct LoopStart {
    std::vector<Leaf> leaves;
    std::set<size_t> merged;  // lists and dicts that are other ones from turn to turn
  };
  LoopStart begin_loop(ir::Graph* graph, std::span<const State> turns, const Changes& changes);
  State unite_turns(Union& all, std::span<const State> turns, const Changes& changes);
  void add_cells(const Object& object, const State* through, std::set<size_t>& cells) const;
  std::set<size_t> cells_of_callers(const State* through) const;
  std::optional<Object> unite_slot(Union& all, std::span<const State> states, size_t slot) const;
  std::optional<Object> unite_cell(Union& all, std::span<const State> states, size_t id) const;
  static bool differs(const Object& a, const Object& b);
  static bool has_known_items(const Object& iterable);
  std::optional<int64_t> known_turns(const Block& head, const State& entry) const;
  void lower_turns(size_t header, State entry, bool peels = false);
  void add_changes(const Activation& function, const std::vector<size_t>& blocks, size_t first_slot, Changes& changes) const;
  bool turn(size_t header, const std::vector<size_t>& blocks);
  std::vector<std::map<int, std::vector<State>>> open_edges() const;
  void reopen(const std::vector<std::map<int, std::vector<State>>>& edges);
  std::string slot_name(size_t slot) const;
  void unroll(size_t header, const std::vector<size_t>& blocks);
  void enter_block(std::vector<State> edges, const Set* live, ir::Graph* root, int line);
  void go_to(int block) { go_to(block, std::move(here_)); }
  void go_to(int block, State state);
  void branch(const Object& condition, const std::function<void()>& then, const std::function<void()>& otherwise);
  Object choose(const Object& condition, const std::function<Object()>& then, const std::function<Object()>& otherwise);
  void join(ir::Graph* into, std::vector<State> edges);
  bool is_settled(const ir::Graph* graph) const;
  static ir::Graph* meeting_point(std::span<const State> edges);
  ir::Graph* outermost_settled(ir::Graph* graph, const ir::Graph* root) const;
  void join_ends(std::vector<State>& ends, const ir::Graph* loop);
  ir::Node* convert(const Object& source, const Leaf& leaf);
  ir::Node* empty_list(const ir::Type& element);
  ir::Node* result_of(std::span<ir::Node* const> leaves);
  std::vector<ir::Node*> results_of(ir::Node* call, std::span<const Leaf> leaves);
  void set_state(State state) { here_ = std::move(state), emit_.set_graph(here_.graph); }
  void drop_dead(State& state, const Set* live) const;

  // Generators (generators.cc)
  Object make_generator(const Closure& closure, std::vector<Local> locals);
  static bool begins_with_loop(const Block& entry, const Cfg& cfg, const Suspended& start);
  std::vector<std::optional<Object>> variables_at(int block, const Activation& producer);
  const Generator* fed_generator(const Tree& loop) const;
  bool is_held(const Generator& generator, const Tree& loop) const;
  bool refers(const Object& object, const Generator& generator) const;
  const Cfg& resumed(const Suspended& generator, bool one_item);
  const std::vector<Set>& live_slots_of(const Closure& closure);
  void by_position(const Generator& generator, const std::function<void()>& go_on);
  void begin_generator(Activation& producer, const Suspended& generator);
  void feed(size_t header);
  void feed_body(Activation& producer, const Object& value, size_t header);
  void resume(const Generator& generator, const std::function<void(Object item)>& on_item, const std::function<void()>& on_end,
              std::optional<Object> sent = std::nullopt);
  void next_or_end(size_t block, const Generator& generator);
  Object next(const std::vector<Object>& arguments, std::optional<Object> sent = std::nullopt);
  Object send(const Object& generator, const Object& value);
  Object list_of(const Object& iterable);

  // Statements
  void step(const Step& step);
  void statement(const Tree& statement);
  void assign(const Tree& target, Object value);
  void unpack(const Tree& target, const Object& value);
  void augmented_assignment(const Tree& statement);
  void assign_item(const Tree& target, const Object& object, const Object& index, const Object& value);
  void require_unshared(const Tree& target, const Object& object);
  void require_own(const Cell& cell) const;
  void remove(const Tree& target);
  std::set<const ir::Node*> memory_of(const ir::Node* node) const;
  bool shows(const Object& object, const std::set<const ir::Node*>& memory) const;
  const Cell* variable_cell(const std::string& variable) const;
  Object iterated(const Object& object);
  void begin_iteration(const Tree& loop);
  Object has_next(const Tree& loop);
  void next_item(const Tree& loop);
  void assert_true(const Tree& statement);
  void require_uncaught(const std::string& exception) const;
  [[noreturn]] void raise(std::string_view message);
  Object after_effects(Object object, std::map<size_t, Object>& instances);
  ir::Node* token();
  void set_token(ir::Node* token) { here_.store[0] = {Array{token}}; }

  // Classes (classes.cc)
  // An error of what knows no place gets this one.
  template <class F>
  auto at_place(F&& f) const {
    try {
      return f();
    } catch (const Error& error) {
      if (!error.location().empty()) throw;
      emit_.fail(error.code(), error.message(), error.hint());
    }
  }
  Object instantiate(const std::shared_ptr<const Live>& type, Arguments arguments);
  std::shared_ptr<const Live> exception_class(const std::string& name);
  std::optional<Member> member_of(const Live& type, const std::string& name, const Live* after = nullptr);
  Object bound(const Member& member, const std::string& name, const Object& self, const std::shared_ptr<const Live>& type);
  std::optional<Object> special(const Object& object, const std::string& name);
  std::optional<Object> find_attribute_of(const Object& object, const std::string& name);
  void put_attribute(const Cell& instance, const std::string& name, Object value);
  void set_attribute(const Object& object, const std::string& name, Object value);
  void remove_attribute(const Object& object, const std::string& name);
  Object super(const std::vector<Object>& given);
  Object make_class(const Tree& statement);
  Member method(const Tree& function, const Cell& own_class, const std::vector<std::pair<std::string, Member>>& members);

  // Methods that stand for operators (special_methods.cc)
  std::optional<Object> by_methods(Kind op, const Object& left, const Object& right);
  std::optional<Object> in_place_by_method(Kind op, const Object& target, const Object& value);
  std::optional<Object> unary_by_method(Kind op, const Object& operand);
  std::optional<Object> require_special(const Object& object, const std::string& name, std::vector<Object> arguments, std::string_view what);
  std::optional<Object> builtin_by_method(const std::string& name, const Arguments& arguments);
  std::optional<Object> text_of_instance(const Object& object);
  std::optional<Object> iterator_of(const Object& object);

  // Patterns (patterns.cc)
  using Captures = std::vector<std::pair<const Tree*, Object>>;  // what binds the name, and to what
  Object matches(const Tree& pattern, const Object& subject);
  void capture(const Tree& pattern, const Object& subject, Captures& captures);
  Object all_hold(std::span<const std::function<Object()>> tests);
  bool counts_as_sequence(const Object& object) const;
  using Parts = std::vector<std::pair<const Tree*, std::function<Object()>>>;  // patterns inside of one, and what each is about
  Parts parts_of_sequence(const Tree& pattern, const Object& subject);
  Parts parts_of_mapping(const Tree& pattern, const Object& subject);
  std::optional<Parts> parts_of_instance(const Tree& pattern, const Object& subject);
  Object rest_of_sequence(const Tree& pattern, const Object& subject);

  // Expressions
  Object evaluate(const Tree& expression);
  Object evaluate_here(const Tree& expression);
  std::vector<Object> elements(const Tree& display);
  Object truth(const Object& object);
  Object as_array(const Object& object);
  Object name(const Tree& expression);
  Object boolean(const Tree& expression, size_t first);
  Object chain(const Tree& expression, size_t first, const Object& left);
  Object compare(Kind op, const Object& left, const Object& right);
  Object binary(Kind op, const Object& left, const Object& right);
  std::optional<bool> known_member(const Object& wanted, const std::vector<Object>& items);
  Object member(const Object& wanted, const std::vector<Object>& items);
  const SetObject* set_of(const Object& object) const;  // null: it is no set
  std::optional<Object> call_set_method(const Object& set, const std::string& name, const std::vector<Object>& given);
  const std::vector<Object>& distinct_items(const SetObject& set);
  bool holds_all(const SetObject& set, const SetObject& others);
  std::optional<Object> compare_sets(Kind op, const Object& left, const Object& right);  // empty: these are no sets
  std::optional<Object> combine_sets(Kind op, const Object& left, const Object& right);
  Object call_expression(const Tree& expression);
  Object make_closure(const Tree& function);
  Object undecorated(const Tree& function);
  Object formatted(const Tree& expression);
  Object make_context(const std::string& name, const Arguments& arguments);
  Object enter_context(const Object& manager);
  Object exit_context(const Object& manager, bool raises);
  Object comprehension(const Tree& expression);
  Object make_cell(Cell::Kind kind, std::optional<Object> content, std::shared_ptr<const Live> type = nullptr);
  void bind(const std::string& variable, Object value, const Tree& at);
  Object imported(const Tree& statement, const Tree& alias);
  std::vector<Object> items_of(const Object& object);  // of what has a known number of them
  Object known_items(const Object& object);
  ir::Node* sequence_of(const Object& object);
  ir::Node* stacked(ir::Node* sequence);
  ir::Node* unstacked(ir::Node* tensor);
  Object as_sequence(const Object& list);
  Object repeated_list(const Object& list, const Object& times);
  static bool holds_numbers(const Object& content);
  static bool are_alike_values(const Object& content);
  Object part_of_list(const Object& list, const Object& slice);

  // Subscripts
  Object subscript(const Object& object, const Object& index);
  Object tensor_subscript(ir::Node* tensor, const Object& index);
  void require_adjacent(std::span<const Object> index);
  static bool are_run_keys(const std::vector<Object>& pairs, const Object& key);
  std::optional<Object> item_by_run_key(const std::vector<Object>& pairs, const Object& key, const std::function<Object()>& otherwise);
  void require_known_key(const Object& key) const;
  Object function_at(std::vector<Object> functions, const Object& index);
  Object with_item(const Object& object, const Object& index, const Object& value);
  ir::Node* indexed(ir::Node* tensor, std::span<const Object> index);
  std::vector<Object> expanded_index(ir::Node* tensor, const Object& index);
  static int broadcast_rank(std::span<ir::Node* const> tensors);
  int64_t known_index(const Object& index, size_t size);

  // Calls, attributes and what is built in
  std::optional<Object> overload(const Live& callee, const Arguments& arguments);
  Object call_closure(const Closure& closure, Arguments arguments);
  int64_t function_number(const Object& function);
  Object call_choice(const Choice& choice, const Arguments& arguments, size_t first = 0);
  Object item_by_number(const std::vector<Object>& numbers, const std::vector<Object>& items, const Object& number,
                        const std::function<Object()>& otherwise, size_t first = 0);
  Object call_derivative(const Derivative& derivative, Arguments arguments);
  Object call_custom_gradient(const CustomGradient& custom, const Arguments& arguments);
  Object stop_gradient(const Object& tree);
  // A call as a function of the IR.
  struct Region {
    State outside;
    ir::Graph* graph;
  };
  Region begin_region(const Object& function);
  Object region_parameter(const Region& region, const Object& like, const ir::Type* type = nullptr);
  Object call_inside(const Object& function, Arguments arguments);
  std::vector<size_t> changed_cells(const Region& region) const;
  void require_pure(const Region& region, const Object& function);
  ir::Lifted end_region(const Region& region, std::span<ir::Node* const> results);
  void leave_region(State outside, size_t first_cell);
  struct Pullback {
    ir::Lifted function;
    std::vector<int64_t> by;  // which leaves of the arguments it gives sensitivities of
  };
  Pullback lower_pullback(const Object& function, std::span<const Object> arguments, const Object& value);
  bool add_sensitivities(const Object& argument, const Object& given, std::vector<std::optional<Object>>& leaves);
  std::string structure(const Object& tree, bool of_sensitivities);
  using LeafMap = std::function<Object(std::span<const Object> leaves)>;
  Object map_trees(std::span<const Object> trees, const LeafMap& leaf);
  Object call_recursive(const Closure& closure, std::vector<Local> locals, const Cfg& cfg);
  State unite_calls(Union& all, std::span<const State> calls, const std::set<size_t>& cells, const Cfg& cfg);
  struct Returned {
    Object result;
    std::map<size_t, Object> contents;  // of cells
  };
  Returned unite_returned(Union& all, const Returned& one);
  size_t add_changed_cells(Recursion& recursion, const std::map<size_t, Object>& before);
  Object call_with(Recursion& recursion, const std::vector<Local>& locals, const Cfg& cfg);
  std::optional<Object> call_known(const Closure& closure, const std::vector<Local>& locals);
  std::vector<Local> bind_arguments(const Closure& closure, const Cfg& cfg, Arguments arguments);
  Object attribute(const Object& object, const std::string& name);
  Object call_method(const Method& method, Arguments arguments);
  static bool has_text_method(const std::string& name);
  Object call_text_method(const std::u32string& text, const std::string& name, const Arguments& arguments);
  Object make_collection(const std::string& name, Arguments arguments);
  std::optional<Object> missing_item(const Object& dict, const Object& key);
  void count_items(const Object& counter, const Object& items);
  std::optional<Object> call_deque_method(const Cell& deque, const std::string& name, const std::vector<Object>& given);
  void shorten(const Cell& deque, bool at_front);
  Object copy_of(const Cell& cell);
  void update_dict(const Object& dict, const Arguments& with);
  Object call_builtin(const std::string& name, Arguments arguments);
  Object derivative_of(const Object& function, const Object& argnums, bool has_value, const Object* checkpoints);
  Object number_of_text(const std::string& type, const std::string& text) const;
  Object call_operator(const std::string& name, Arguments arguments);
  ir::Node* list_item(ir::Node* sequence, const Object& value);
  Object type_of(const Object& object);
  std::string builtin_type_of(const Object& object) const;
  bool is_instance(const Object& object, const Object& type) const;
  void print(const Arguments& arguments);
  DType dtype_of(const Object& object);
  std::vector<Object> shape_numbers(const Object& object);
  Object shape(ir::Node* tensor);
  Object length(const Object& object);
  Object item(const Object& object, const Object& index);
  const Cfg& cfg_of(const Closure& closure);

  Emitter emit_;
  State here_;
  Activation* activation_ = nullptr;
  std::vector<Activation*> running_;  // the callers, and generators that wait while a loop takes what they yield
  // Functions that return what one outside of them returns: a loop around, a place where paths join.
  std::set<const ir::Graph*> leaving_;
  Recursion* recursion_ = nullptr;   // the innermost that is being lowered
  std::set<const Tree*> recursive_;  // functions that call themselves
  std::map<const Tree*, std::unique_ptr<Cfg>> cfgs_;
  // Generators that stand before a block: one item of them, or all.
  std::map<std::tuple<const Tree*, int, bool>, std::unique_ptr<Cfg>> resumed_;
  std::map<const Tree*, std::vector<Set>> live_slots_;
  std::map<const Tree*, Tree*> comprehensions_;  // the functions that they are
  const Closure* globals_of_ = nullptr;          // where no function is being lowered
  std::vector<State> dead_ends_;                 // paths that raise, in functions that do not return yet
  // The class statement that is evaluated: the names in its body, which the functions in it do not see.
  struct ClassBody {
    const Activation* function;
    const std::vector<std::pair<std::string, Member>>* members;
  };
  const ClassBody* class_body_ = nullptr;
  std::map<std::string, std::shared_ptr<const ProgramClass>> exceptions_;  // of Python's own, by name
  size_t next_cell_ = 1;
  std::map<size_t, Cell::Kind> cell_kinds_;
  // Dicts and lists of Python's module collections, by cell.
  struct Collection {
    std::string type;                // "defaultdict"
    std::optional<Object> missing;   // called for what is at a key that is not there
    std::optional<int64_t> longest;  // a deque holds no more
  };
  std::map<size_t, Collection> collections_;
  // Tensors of which a joined one may be any, by what the join made.
  std::map<const ir::Node*, std::vector<const ir::Node*>> joined_from_;
  std::set<const ir::Node*> callers_tensors_;
  std::set<size_t> callers_cells_;
  // Lists and dicts that may be one and the same, or not, as the run goes: they keep their items.
  std::set<size_t> frozen_cells_;
  std::vector<Object> functions_;  // by number
};

}  // namespace anfora::python
