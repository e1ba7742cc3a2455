// Generators: functions that yield. Calling one runs nothing; it stands before its first block, with its arguments.
//
//     for x in pairs(n):        def pairs(n):
//         BODY                      while n > 0:
//                                       yield n, n - 1
//                                       n -= 2
//
// A loop over a generator that nothing else can see is the generator's code, with the loop's body in the place of each `yield`: `continue`
// goes on behind the yield, `break` and `return` leave the generator (feed()). So its loops stay loops. While the generator runs, its
// variables stand in front of those of the function around; in the body they stand behind (rotated):
//
//     in the generator   [generator | function | …]        in the body   [function | … | generator]
//
// next(), and a loop over a generator that others see too, run it to its next yield (resume()): on a copy of its control flow graph that
// begins where it stands, and ends at yields (resumed_cfg). What it needs from there on is kept in the state, as the content of a list is.
// A loop whose turns move a generator from one yield to another is peeled until the generator is at the same one before and after a turn. Where
// that is not so, and where other paths meet that left it at different yields, the number of the block is a value of the run, and what asks for
// an item branches on it (by_position()).
#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"
#include "frontend/python/lower/activation.h"
#include "frontend/python/lower/builtins.h"

namespace anfora::python {
namespace {

void rotate_front(auto& variables, size_t count) {
  std::rotate(variables.begin(), variables.begin() + static_cast<std::ptrdiff_t>(count), variables.end());
}
void rotate_back(auto& variables, size_t count) {
  std::rotate(variables.begin(), variables.end() - static_cast<std::ptrdiff_t>(count), variables.end());
}
void erase_front(auto& variables, size_t count) {
  variables.erase(variables.begin(), variables.begin() + static_cast<std::ptrdiff_t>(count));
}

std::vector<size_t> all_blocks(const Cfg& cfg) {
  std::vector<size_t> all(cfg.blocks.size());
  for (size_t b = 0; b < all.size(); ++b) all[b] = b;
  return all;
}

std::shared_ptr<const Suspended> standing(const Suspended& generator, int block) {
  return std::make_shared<const Suspended>(Suspended{generator.closure, block, {}, {}, nullptr});
}

}  // namespace

Object Lowering::make_generator(const Closure& closure, std::vector<Local> locals) {
  Suspended start{.closure = std::make_shared<const Closure>(closure), .block = 0, .variables = {}, .several = {}, .which = nullptr};
  for (Local& local : locals) start.variables.push_back(std::move(local.object));
  const Block& entry = cfg_of(closure).blocks[0];
  if (begins_with_loop(entry, cfg_of(closure), start)) {
    Activation producer(*start.closure, cfg_of(closure));
    prepare(producer);
    const Emitter::Place place = emit_.place();
    begin_generator(producer, start);
    {
      const Entered entered(*this, producer);
      step(entry.steps[0]);
    }
    emit_.set_place(place);
    start.block = entry.then;
    start.variables = variables_at(start.block, producer);
    erase_front(here_.locals, producer.slots());
  }
  const Generator generator{next_cell_++};
  here_.store[generator.id] = {std::make_shared<const Suspended>(std::move(start))};
  return {generator};
}

// A generator that first of all goes over an argument stands in that loop at once, as CPython's generator expressions do. So it stands there
// before its first item as before all others. Of a list it would not see what is appended until then.
bool Lowering::begins_with_loop(const Block& entry, const Cfg& cfg, const Suspended& start) {
  if (entry.steps.size() != 1 || entry.steps[0].kind != StepKind::Iterate || entry.end != EndKind::Jump) return false;
  const Tree& items = *entry.steps[0].tree->child("iter");
  if (!items.is(Kind::Name)) return false;
  const auto parameter = std::ranges::find(cfg.scope.parameters, items.text("id"));
  if (parameter == cfg.scope.parameters.end()) return false;
  const auto& argument = start.variables[static_cast<size_t>(parameter - cfg.scope.parameters.begin())];
  const auto* iterable = argument->as<Iterable>();
  const bool is_range = iterable && iterable->kind == Iterable::Kind::Range;
  return is_range || argument->is<Array>() || argument->tuple() || argument->is<Generator>();
}

// What of a generator's variables lives before a block of its function.
std::vector<std::optional<Object>> Lowering::variables_at(int block, const Activation& producer) {
  const Set& live = live_slots_of(producer.closure)[static_cast<size_t>(block)];
  std::vector<std::optional<Object>> variables;
  for (size_t i = 0; i < producer.slots(); ++i) variables.push_back(live.test(i) ? here_.locals[i].object : std::nullopt);
  return variables;
}

// What a `for` goes over, if it is a generator.
const Generator* Lowering::fed_generator(const Tree& loop) const {
  return here_.locals[activation_->iterator_slot(loop)].object->tuple()->items[0].as<Generator>();
}

// Whether anything but the loop can ask it for items.
bool Lowering::is_held(const Generator& generator, const Tree& loop) const {
  const size_t own = activation_->iterator_slot(loop);
  for (size_t i = 0; i < here_.locals.size(); ++i) {
    if (i != own && here_.locals[i].object && refers(*here_.locals[i].object, generator)) return true;
  }
  for (const auto& [id, content] : here_.store) {
    if (id != generator.id && refers(content, generator)) return true;
  }
  for (const Activation* function : running_) {
    if (!function->caller) continue;
    for (size_t i = 0; i < function->saved.size(); ++i) {
      const std::optional<Object>& object = function->saved[i].object;
      const bool may_read = i >= function->caller->slots() || function->caller->reads_again(i);
      if (object && may_read && refers(*object, generator)) return true;
    }
  }
  return false;
}

// Lists and captured variables are cells, whose contents is_held() sees.
bool Lowering::refers(const Object& object, const Generator& generator) const {
  auto any = [&](const std::vector<Object>& items) {
    return std::ranges::any_of(items, [&](const Object& item) { return refers(item, generator); });
  };
  if (const auto* other = object.as<Generator>()) return *other == generator;
  if (const Items* tuple = object.tuple()) return any(tuple->items);
  if (const auto* iterable = object.as<Iterable>()) return any(iterable->parts->items);
  if (const Closure* closure = object.closure())
    return std::ranges::any_of(closure->bound, [&](const auto& bound) { return refers(*bound.second, generator); });
  const Suspended* suspended = object.suspended();
  if (suspended && std::ranges::any_of(suspended->several, [&](const Suspended& one) { return refers({std::make_shared<const Suspended>(one)}, generator); }))
    return true;
  return suspended && std::ranges::any_of(suspended->variables, [&](const std::optional<Object>& variable) {
           return variable && refers(*variable, generator);
         });
}

const Cfg& Lowering::resumed(const Suspended& generator, bool one_item) {
  const Cfg& whole = cfg_of(*generator.closure);
  if (generator.block == 0 && !one_item) return whole;
  std::unique_ptr<Cfg>& rest = resumed_[{generator.closure->function, generator.block, one_item}];
  if (!rest) rest = std::make_unique<Cfg>(resumed_cfg(whole, static_cast<size_t>(generator.block), one_item));
  return *rest;
}

const std::vector<Set>& Lowering::live_slots_of(const Closure& closure) {
  auto known = live_slots_.find(closure.function);
  if (known == live_slots_.end())
    known = live_slots_.emplace(closure.function, Activation(closure, cfg_of(closure)).live_slots).first;
  return known->second;
}

// Goes on once for each block where the generator may stand, on the path where it does.
void Lowering::by_position(const Generator& generator, const std::function<void()>& go_on) {
  const Suspended start = *here_.store.at(generator.id).suspended();
  std::function<void(size_t)> from = [&](size_t i) {
    auto stands_here = [&] {
      here_.store[generator.id] = {std::make_shared<const Suspended>(start.several[i])};
      const InRegion inside(*activation_, here_.graph);
      go_on();
    };
    if (i + 1 == start.several.size()) return stands_here();
    branch(compare(Kind::Eq, *start.which, make_integer(start.several[i].block)), stands_here, [&] { from(i + 1); });
  };
  from(0);
}

void Lowering::begin_generator(Activation& producer, const Suspended& generator) {
  if (generator.block == Suspended::kUnknown) {
    emit_.fail(ErrorCode::Unsupported,
               fmt::format("how far {} has come is only known when it runs", describe({std::make_shared<const Suspended>(generator)})),
               "go over it in one loop, or over the list of its items: list(…)");
  }
  std::vector<Local> own(producer.slots());
  for (size_t i = 0; i < generator.variables.size(); ++i) own[i].object = generator.variables[i];
  const Scope& scope = producer.cfg.scope;
  for (size_t i = 0; i < scope.locals.size() && generator.block == 0; ++i) {
    if (scope.captured.contains(scope.locals[i])) own[i].object = make_cell(Cell::Kind::Variable, std::move(own[i].object));
  }
  here_.locals.insert(here_.locals.begin(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
}

// A `for` over a generator that nothing else sees.
void Lowering::feed(size_t header) {
  Activation& consumer = *activation_;
  const Block& head = consumer.cfg.blocks[header];
  const Generator generator = *fed_generator(*head.tree);
  const Suspended start = *here_.store.at(generator.id).suspended();
  if (start.block == Suspended::kSeveral) return by_position(generator, [&] { feed(header); });
  if (start.block == Suspended::kFinished) return go_to(head.otherwise);
  here_.store[generator.id] = {standing(start, Suspended::kUnknown)};
  Activation producer(*start.closure, resumed({start.closure, std::max(start.block, 0), {}, {}, nullptr}, false));
  prepare(producer);
  producer.fed_header = header;
  producer.takes_apart = producer.takes_apart || consumer.takes_apart;
  producer.take = [&](const Object& item, const Block& yield) {
    drop_dead(here_, &producer.live_slots[static_cast<size_t>(yield.then)]);
    feed_body(producer, item, header);
  };
  const Emitter::Place place = emit_.place();
  begin_generator(producer, start);
  {
    const Entered entered(*this, producer);
    go_to(0);
    process(all_blocks(producer.cfg), std::nullopt, consumer.root);
    std::vector<State> returns = std::move(producer.edges[kReturn]);
    producer.edges.clear();
    if (returns.empty()) return;
    const Set none(producer.slots());
    enter_block(std::move(returns), &none, consumer.root, start.closure->function->position.line);
  }
  erase_front(here_.locals, producer.slots());
  here_.store[generator.id] = {standing(start, Suspended::kFinished)};
  emit_.set_place(place);
  go_to(head.otherwise);
}

// The body of the loop for an item; the generator goes on behind it, unless no path leads to the next turn.
void Lowering::feed_body(Activation& producer, const Object& item, size_t header) {
  Activation& consumer = *producer.caller;
  const Block& head = consumer.cfg.blocks[header];
  static const std::vector<size_t> kNone;
  const auto loop = consumer.loops.find(header);
  const std::vector<size_t>& blocks = loop == consumer.loops.end() ? kNone : loop->second.blocks;
  rotate_front(here_.locals, producer.slots());
  struct Body {
    Lowering& lowering;
    Activation& producer;
    ~Body() {
      producer.caller->fed.pop_back();
      lowering.activation_ = &producer;
    }
  };
  {
    const Body body{*this, producer};
    activation_ = &consumer;
    consumer.fed.push_back({&blocks, here_.locals.size() - producer.slots()});
    here_.locals[consumer.iterator_slot(*head.tree) + 1] = {item, head.tree};
    go_to(head.then);
    process(blocks, header, producer.root);
    std::vector<State> turns = std::move(consumer.edges[static_cast<int>(header)]);
    consumer.edges.erase(static_cast<int>(header));
    if (turns.empty()) throw Unreached();
    enter_block(std::move(turns), &consumer.live_slots[header], producer.root, head.tree->position.line);
  }
  rotate_back(here_.locals, producer.slots());
}

// Runs a generator to its next yield: on the paths that come to one, on_item() takes the item, on those that return on_end() goes on.
void Lowering::resume(const Generator& generator, const std::function<void(Object item)>& on_item,
                      const std::function<void()>& on_end, std::optional<Object> sent) {
  Activation& consumer = *activation_;
  const Suspended start = *here_.store.at(generator.id).suspended();
  if (start.block == Suspended::kSeveral) return by_position(generator, [&] { resume(generator, on_item, on_end, sent); });
  if (start.block == Suspended::kFinished) return on_end();
  here_.store[generator.id] = {standing(start, Suspended::kUnknown)};
  Activation producer(*start.closure, resumed({start.closure, std::max(start.block, 0), {}, {}, nullptr}, true), &live_slots_of(*start.closure));
  prepare(producer);
  producer.sent = std::move(sent);
  producer.takes_apart = producer.takes_apart || consumer.takes_apart;
  producer.take = [&](const Object& item, const Block& yield) {
    Suspended stands{.closure = start.closure, .block = yield.resumed, .variables = variables_at(yield.resumed, producer), .several = {}, .which = nullptr};
    here_.store[generator.id] = {std::make_shared<const Suspended>(std::move(stands))};
    here_.locals[producer.result_slot()] = {item, yield.tree};
    go_to(kYielded);
    throw Unreached();
  };
  const Emitter::Place place = emit_.place();
  ir::Graph* root = here_.graph;
  begin_generator(producer, start);
  const Entered entered(*this, producer);
  go_to(0);
  process(all_blocks(producer.cfg), std::nullopt, root);
  for (const int end : {kYielded, kReturn}) {
    std::vector<State> ends = std::move(producer.edges[end]);
    producer.edges.erase(end);
    if (ends.empty()) continue;
    Set live_at_end(producer.slots());
    live_at_end.set(producer.result_slot(), end == kYielded);
    enter_block(std::move(ends), &live_at_end, root, start.closure->function->position.line);
    std::optional<Object> item = std::move(here_.locals[producer.result_slot()].object);
    erase_front(here_.locals, producer.slots());
    if (end == kReturn) here_.store[generator.id] = {standing(start, Suspended::kFinished)};
    emit_.set_place(place);
    struct Consuming {
      Lowering& lowering;
      Activation& producer;
      ~Consuming() { lowering.activation_ = &producer; }
    } const consuming{*this, producer};
    activation_ = &consumer;
    end == kYielded ? on_item(std::move(*item)) : on_end();
  }
}

// A `for` over a generator that others see, too.
void Lowering::next_or_end(size_t block, const Generator& generator) {
  const Block& head = activation_->cfg.blocks[block];
  const size_t slot = activation_->iterator_slot(*head.tree);
  resume(
      Generator(generator),
      [&](Object item) {
        here_.locals[slot + 1] = {std::move(item), head.tree};
        go_to(head.then);
      },
      [&] { go_to(head.otherwise); });
}

// g.send(value): the yield where it stands gives the value.
Object Lowering::send(const Object& generator, const Object& value) {
  const Suspended& stands = *here_.store.at(generator.as<Generator>()->id).suspended();
  if (!value.is_none() && stands.block == 0) {
    emit_.fail(ErrorCode::InvalidArgument, "a value is sent to a generator that has not come to a yield", "next(g) runs it to its first one");
  }
  if (!value.is_none() && stands.block != Suspended::kFinished && cfg_of(*stands.closure).scope.is_local(kDelegated)) {
    emit_.fail(ErrorCode::Unsupported, "send() to a generator with a 'yield from' is not supported", "write a loop with a yield: for item in items: yield item");
  }
  return next({generator}, value);
}

Object Lowering::next(const std::vector<Object>& arguments, std::optional<Object> sent) {
  const auto* generator = arguments[0].as<Generator>();
  if (!generator || !activation_) {
    emit_.fail(ErrorCode::TypeMismatch, fmt::format("next() of {}", describe(arguments[0])),
               "it is of a generator; iter(…) makes one of what has items");
  }
  Activation& function = *activation_;
  ir::Graph* graph = here_.graph;
  const Emitter::Place place = emit_.place();
  auto end_with = [&](Object value) {
    here_.locals.push_back({std::move(value), place.tree});
    function.edges[kJoined].push_back(std::move(here_));
  };
  resume(*generator, end_with, [&] {
    if (arguments.size() > 1) return end_with(arguments[1]);
    try {
      raise("StopIteration");
    } catch (const Unreached&) {
    }
  }, std::move(sent));
  std::vector<State> ends = std::move(function.edges[kJoined]);
  function.edges.erase(kJoined);
  if (ends.empty()) throw Unreached();
  enter_block(std::move(ends), nullptr, graph, place.tree->position.line);
  emit_.set_place(place);
  Object value = std::move(*here_.locals.back().object);
  here_.locals.pop_back();
  return value;
}

Object Lowering::list_of(const Object& iterable) {
  return call(*find_in_library("anfora", "_list_of"), {.positional = {iterable}, .named = {}});
}

}  // namespace anfora::python
