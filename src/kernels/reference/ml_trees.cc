// Ensembles of decision trees.
//
// The operators encode a forest in two ways: TreeEnsembleClassifier and TreeEnsembleRegressor as nodes with ids of their
// own and votes that refer to them, TreeEnsemble as indices into arrays of inner nodes and of leaves. Both are brought
// to one form, in which a child is an index: of a node when it is not negative, else ~child of a leaf.
#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cmath>
#include <limits>

#include "kernels/reference/arguments.h"
#include "kernels/reference/families.h"
#include "kernels/reference/ml_common.h"
#include "kernels/reference/prepared.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels {
namespace {

enum class Test : uint8_t { LessOrEqual, Less, GreaterOrEqual, Greater, Equal, NotEqual, Member };

enum class Aggregate { Average, Sum, Min, Max };

struct TreeNode {
  double split = 0;  // of Member: the index of the set
  int32_t feature = 0;
  int32_t if_true = 0, if_false = 0;
  Test test = Test::LessOrEqual;
  bool missing_is_true = false;  // where NaN goes, when the test does not say
};

struct Vote {
  int64_t target;
  double weight;
};

struct Leaf {
  size_t first = 0, count = 0;  // its votes
};

// What a row gets: a score of each target, and whether any leaf voted for it.
struct Scores {
  std::span<double> values;
  std::span<uint8_t> voted;
};

class Forest {
 public:
  std::vector<TreeNode> nodes;
  std::vector<int32_t> roots;
  std::vector<Leaf> leaves;
  std::vector<Vote> votes;
  std::vector<std::vector<double>> sets;  // sorted
  int64_t targets = 0;

  // Throws when an index is out of range or the nodes form a circle.
  void check() const;
  // Calls body(row, scores) for each row of X, rows on several threads.
  template <class Body>
  void for_each_row(const FeatureRows& rows, Aggregate aggregate, Body&& body) const;

 private:
  void check_circles() const;
  bool passes(const TreeNode& node, double value) const;
  const Leaf& leaf_of(int32_t root, const double* features) const;
  void vote(const Leaf& leaf, Aggregate aggregate, Scores scores) const;
};

void Forest::check() const {
  auto require_child = [&](int32_t child) {
    if (child >= 0 ? static_cast<size_t>(child) >= nodes.size() : static_cast<size_t>(~child) >= leaves.size()) {
      refuse("a tree refers to the node {}, which does not exist", child >= 0 ? child : ~child);
    }
  };
  for (int32_t root : roots) require_child(root);
  for (const TreeNode& node : nodes) {
    require_child(node.if_true);
    require_child(node.if_false);
    if (node.feature < 0) refuse("a tree tests the feature {}", node.feature);
  }
  for (const Vote& vote : votes) {
    if (vote.target < 0 || vote.target >= targets) refuse("a leaf votes for {} of {} targets", vote.target, targets);
  }
  check_circles();
}

void Forest::check_circles() const {
  enum Mark : uint8_t { kUnseen, kOpen, kDone };
  std::vector<Mark> marks(nodes.size(), kUnseen);
  std::vector<int32_t> stack;
  for (int32_t root : roots) {
    stack.push_back(root);
    while (!stack.empty()) {
      const int32_t at = stack.back();
      if (at < 0 || marks[static_cast<size_t>(at)] != kUnseen) {
        if (at >= 0) marks[static_cast<size_t>(at)] = kDone;
        stack.pop_back();
        continue;
      }
      marks[static_cast<size_t>(at)] = kOpen;
      const TreeNode& node = nodes[static_cast<size_t>(at)];
      for (int32_t child : {node.if_true, node.if_false}) {
        if (child < 0) continue;
        if (marks[static_cast<size_t>(child)] == kOpen) refuse("the nodes of a tree form a circle");
        if (marks[static_cast<size_t>(child)] == kUnseen) stack.push_back(child);
      }
    }
  }
}

bool Forest::passes(const TreeNode& node, double value) const {
  switch (node.test) {
    case Test::LessOrEqual: return value <= node.split;
    case Test::Less: return value < node.split;
    case Test::GreaterOrEqual: return value >= node.split;
    case Test::Greater: return value > node.split;
    case Test::Equal: return value == node.split;
    case Test::NotEqual: return value != node.split;
    case Test::Member:
      return !std::isnan(value) && std::ranges::binary_search(sets[static_cast<size_t>(node.split)], value);
  }
  return false;
}

const Leaf& Forest::leaf_of(int32_t root, const double* features) const {
  int32_t at = root;
  while (at >= 0) {
    const TreeNode& node = nodes[static_cast<size_t>(at)];
    const double value = features[node.feature];
    at = passes(node, value) || (node.missing_is_true && std::isnan(value)) ? node.if_true : node.if_false;
  }
  return leaves[static_cast<size_t>(~at)];
}

void Forest::vote(const Leaf& leaf, Aggregate aggregate, Scores scores) const {
  for (const Vote& vote : std::span(votes).subspan(leaf.first, leaf.count)) {
    const auto target = static_cast<size_t>(vote.target);
    double& score = scores.values[target];
    if (!scores.voted[target]) {
      score = vote.weight;
    } else if (aggregate == Aggregate::Min) {
      score = std::min(score, vote.weight);
    } else if (aggregate == Aggregate::Max) {
      score = std::max(score, vote.weight);
    } else {
      score += vote.weight;
    }
    scores.voted[target] = 1;
  }
}

// Tree by tree over a block of rows, so that the nodes of a tree stay in the cache.
template <class Body>
void Forest::for_each_row(const FeatureRows& rows, Aggregate aggregate, Body&& body) const {
  constexpr int64_t kBlock = 64, kTreesWorthAThread = 1024;
  for (const TreeNode& node : nodes) {
    if (node.feature >= rows.features()) refuse("a tree tests the feature {} of {}", node.feature, rows.features());
  }
  const auto width = static_cast<size_t>(targets), features = static_cast<size_t>(rows.features());
  parallel_for(rows.rows(), grain_of(kTreesWorthAThread, std::ssize(roots)), [&](int64_t begin, int64_t end) {
    const auto most = static_cast<size_t>(std::min(kBlock, end - begin));
    ScratchVector<double> data(most * features), values(most * width);
    ScratchVector<uint8_t> voted(most * width);
    auto scores_of = [&](size_t row) {
      return Scores{std::span(values).subspan(row * width, width), std::span(voted).subspan(row * width, width)};
    };
    for (int64_t first = begin; first < end; first += kBlock) {
      const auto count = static_cast<size_t>(std::min(kBlock, end - first));
      std::ranges::fill(values, 0.0);
      std::ranges::fill(voted, uint8_t{0});
      for (size_t row = 0; row < count; ++row) {
        rows.read(first + static_cast<int64_t>(row), std::span(data).subspan(row * features, features));
      }
      for (int32_t root : roots) {
        for (size_t row = 0; row < count; ++row) vote(leaf_of(root, &data[row * features]), aggregate, scores_of(row));
      }
      for (size_t row = 0; row < count; ++row) {
        const Scores scores = scores_of(row);
        if (aggregate == Aggregate::Average) {
          for (double& score : scores.values) score /= static_cast<double>(roots.size());
        }
        body(first + static_cast<int64_t>(row), scores);
      }
    }
  });
}

// Reading the attributes -----------------------------------------------------------------------------

std::vector<double> doubles_of(const Tensor& tensor) {
  std::vector<double> values;
  values.reserve(static_cast<size_t>(tensor.size()));
  dispatch<FeatureTypes>(tensor.dtype(), [&]<class T>() {
    for (T value : tensor.data<T>()) values.push_back(static_cast<double>(value));
  });
  return values;
}

// A list of numbers that comes as floats, or as a tensor where they are doubles.
std::vector<double> number_list(const AttributeSet& attributes, const std::string& name) {
  if (const Tensor* tensor = attributes.get_tensor(name + "_as_tensor")) return doubles_of(*tensor);
  const std::vector<float> floats = attributes.get_floats(name);
  return {floats.begin(), floats.end()};
}

void require_length(size_t length, size_t wanted, const char* what) {
  if (length != wanted) refuse("{} has {} elements instead of {}", what, length, wanted);
}

std::optional<Test> test_of_mode(std::string_view mode) {
  if (mode == "LEAF") return std::nullopt;
  constexpr std::string_view kModes[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                         "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
  const auto found = std::ranges::find(kModes, mode);
  if (found == std::end(kModes)) refuse("'{}' is no mode of a tree's node", mode);
  return static_cast<Test>(found - std::begin(kModes));
}

int32_t feature_index(int64_t index) {
  if (index < 0 || index > std::numeric_limits<int32_t>::max()) refuse("a tree tests the feature {}", index);
  return static_cast<int32_t>(index);
}

struct NodeId {
  int64_t tree, node;
  bool operator==(const NodeId&) const = default;
  friend size_t hash_value(const NodeId& id) {
    return static_cast<size_t>(id.tree) * size_t{0x9e3779b97f4a7c15} ^ static_cast<size_t>(id.node);
  }
};

// The forest of a TreeEnsembleClassifier (votes: "class", ids "class_ids") or TreeEnsembleRegressor ("target").
Forest read_forest(const AttributeSet& attributes, const std::string& vote_prefix, int64_t targets) {
  const auto trees = attributes.get_ints("nodes_treeids"), ids = attributes.get_ints("nodes_nodeids");
  const auto features = attributes.get_ints("nodes_featureids");
  const auto if_true = attributes.get_ints("nodes_truenodeids"), if_false = attributes.get_ints("nodes_falsenodeids");
  const auto missing = attributes.get_ints("nodes_missing_value_tracks_true");
  const auto modes = attributes.get_strings("nodes_modes");
  const std::vector<double> splits = number_list(attributes, "nodes_values");
  const size_t count = ids.size();
  require_length(trees.size(), count, "nodes_treeids");
  require_length(features.size(), count, "nodes_featureids");
  require_length(if_true.size(), count, "nodes_truenodeids");
  require_length(if_false.size(), count, "nodes_falsenodeids");
  require_length(modes.size(), count, "nodes_modes");
  require_length(splits.size(), count, "nodes_values");
  if (!missing.empty()) require_length(missing.size(), count, "nodes_missing_value_tracks_true");

  Forest forest;
  forest.targets = targets;
  boost::unordered_flat_map<NodeId, int32_t> places;  // of a node in forest.nodes, or ~ of a leaf
  for (size_t i = 0; i < count; ++i) {
    auto test = test_of_mode(modes[i]);
    int32_t place;
    if (test) {
      place = static_cast<int32_t>(forest.nodes.size());
      TreeNode& node = forest.nodes.emplace_back();
      node.split = splits[i];
      node.feature = feature_index(features[i]);
      node.test = *test;
      node.missing_is_true = !missing.empty() && missing[i] != 0;
    } else {
      place = ~static_cast<int32_t>(forest.leaves.size());
      forest.leaves.emplace_back();
    }
    if (!places.emplace(NodeId{trees[i], ids[i]}, place).second) {
      refuse("the node {} occurs twice in tree {}", ids[i], trees[i]);
    }
    // A tree starts with its root.
    if (i == 0 || trees[i] != trees[i - 1]) forest.roots.push_back(place);
  }
  auto place_of = [&](int64_t tree, int64_t node) {
    auto found = places.find(NodeId{tree, node});
    if (found == places.end()) refuse("tree {} has no node {}", tree, node);
    return found->second;
  };
  for (size_t i = 0, inner = 0; i < count; ++i) {
    if (modes[i] == "LEAF") continue;
    forest.nodes[inner].if_true = place_of(trees[i], if_true[i]);
    forest.nodes[inner].if_false = place_of(trees[i], if_false[i]);
    ++inner;
  }

  const auto vote_trees = attributes.get_ints(vote_prefix + "_treeids");
  const auto vote_nodes = attributes.get_ints(vote_prefix + "_nodeids");
  const auto vote_targets = attributes.get_ints(vote_prefix + "_ids");
  const std::vector<double> weights = number_list(attributes, vote_prefix + "_weights");
  require_length(vote_nodes.size(), vote_trees.size(), "the list of voting nodes");
  require_length(vote_targets.size(), vote_trees.size(), "the list of targets voted for");
  require_length(weights.size(), vote_trees.size(), "the list of weights");
  // Votes sorted by leaf, those of a leaf in their order.
  std::vector<std::pair<int32_t, size_t>> order;
  for (size_t i = 0; i < vote_trees.size(); ++i) {
    const int32_t place = place_of(vote_trees[i], vote_nodes[i]);
    if (place < 0) order.emplace_back(~place, i);  // a vote at an inner node is never reached
  }
  std::ranges::sort(order);
  for (auto [leaf_index, i] : order) {
    Leaf& leaf = forest.leaves[static_cast<size_t>(leaf_index)];
    if (leaf.count == 0) leaf.first = forest.votes.size();
    ++leaf.count;
    forest.votes.push_back({vote_targets[i], weights[i]});
  }
  forest.check();
  return forest;
}

// The forest of a TreeEnsemble.
Forest read_indexed_forest(const AttributeSet& attributes) {
  auto required_tensor = [&](const char* name) {
    const Tensor* tensor = attributes.get_tensor(name);
    if (!tensor) refuse("the attribute {} is missing", name);
    return doubles_of(*tensor);
  };
  const auto features = attributes.get_ints("nodes_featureids");
  const auto if_true = attributes.get_ints("nodes_truenodeids"), if_false = attributes.get_ints("nodes_falsenodeids");
  const auto true_is_leaf = attributes.get_ints("nodes_trueleafs"),
             false_is_leaf = attributes.get_ints("nodes_falseleafs");
  const auto missing = attributes.get_ints("nodes_missing_value_tracks_true");
  const std::vector<double> splits = required_tensor("nodes_splits");
  const Tensor* modes = attributes.get_tensor("nodes_modes");
  if (!modes || modes->dtype() != DType::U8) refuse("nodes_modes is not a tensor of u8");
  const size_t count = features.size();
  require_length(if_true.size(), count, "nodes_truenodeids");
  require_length(if_false.size(), count, "nodes_falsenodeids");
  require_length(true_is_leaf.size(), count, "nodes_trueleafs");
  require_length(false_is_leaf.size(), count, "nodes_falseleafs");
  require_length(static_cast<size_t>(modes->size()), count, "nodes_modes");
  require_length(splits.size(), count, "nodes_splits");
  if (!missing.empty()) require_length(missing.size(), count, "nodes_missing_value_tracks_true");

  Forest forest;
  forest.targets = attributes.get_int("n_targets", 1);
  for (int64_t root : attributes.get_ints("tree_roots")) {
    if (root < 0 || root >= static_cast<int64_t>(count)) refuse("a tree begins at the node {} of {}", root, count);
    forest.roots.push_back(static_cast<int32_t>(root));
  }
  auto child = [](int64_t index, bool leaf) {
    if (index < 0 || index >= std::numeric_limits<int32_t>::max()) refuse("a tree refers to the node {}", index);
    return leaf ? ~static_cast<int32_t>(index) : static_cast<int32_t>(index);
  };
  size_t sets = 0;
  for (size_t i = 0; i < count; ++i) {
    TreeNode& node = forest.nodes.emplace_back();
    const uint8_t mode = modes->data<uint8_t>()[i];
    if (mode > static_cast<uint8_t>(Test::Member)) refuse("{} is no mode of a tree's node", mode);
    node.test = static_cast<Test>(mode);
    node.split = node.test == Test::Member ? static_cast<double>(sets++) : splits[i];
    node.feature = feature_index(features[i]);
    node.missing_is_true = !missing.empty() && missing[i] != 0;
    node.if_true = child(if_true[i], true_is_leaf[i] != 0);
    node.if_false = child(if_false[i], false_is_leaf[i] != 0);
  }
  // The members of all sets in one list, each set closed by a NaN.
  forest.sets.resize(sets);
  if (const Tensor* members = attributes.get_tensor("membership_values")) {
    size_t set = 0;
    for (double member : doubles_of(*members)) {
      if (std::isnan(member)) {
        ++set;
      } else if (set < sets) {
        forest.sets[set].push_back(member);
      }
    }
    for (auto& values : forest.sets) std::ranges::sort(values);
  }
  const auto targets = attributes.get_ints("leaf_targetids");
  const std::vector<double> weights = required_tensor("leaf_weights");
  require_length(weights.size(), targets.size(), "leaf_weights");
  for (size_t i = 0; i < targets.size(); ++i) {
    forest.leaves.push_back({i, 1});
    forest.votes.push_back({targets[i], weights[i]});
  }
  forest.check();
  return forest;
}

// The operators --------------------------------------------------------------------------------------

// TreeEnsemble and TreeEnsembleRegressor: one row of scores for each row of X, the base values added.
class Regressor {
 public:
  Regressor(Forest forest, Aggregate aggregate, PostTransform transform, std::vector<double> base)
      : forest_(std::move(forest)), aggregate_(aggregate), transform_(transform), base_(std::move(base)) {
    if (!base_.empty()) require_length(base_.size(), static_cast<size_t>(forest_.targets), "base_values");
  }

  void run(KernelContext& context, DType dtype) const {
    const FeatureRows rows(context.input(0));
    Tensor& output = context.allocate_output(0, dtype, {{rows.rows(), forest_.targets}});
    forest_.for_each_row(rows, aggregate_, [&](int64_t row, Scores scores) {
      for (size_t i = 0; i < base_.size(); ++i) scores.values[i] += base_[i];
      transform_scores(transform_, scores.values);
      dispatch<TypeList<float, double, Float16>>(dtype, [&]<class T>() {
        std::ranges::transform(scores.values, output.data<T>().begin() + row * forest_.targets,
                               [](double v) { return static_cast<T>(v); });
      });
    });
  }

 private:
  Forest forest_;
  Aggregate aggregate_;
  PostTransform transform_;
  std::vector<double> base_;
};

struct TreeEnsemble : Regressor {
  explicit TreeEnsemble(const AttributeSet& attributes)
      : Regressor(read_indexed_forest(attributes), aggregate(attributes.get_int("aggregate_function", 1)),
                  post_transform(attributes.get_int("post_transform", 0)), {}) {}
  void run(KernelContext& context) const { Regressor::run(context, context.input(0).dtype()); }

 private:
  static Aggregate aggregate(int64_t number) {
    if (number < 0 || number > static_cast<int64_t>(Aggregate::Max)) refuse("{} is no aggregate_function", number);
    return static_cast<Aggregate>(number);
  }
};

struct TreeEnsembleRegressor : Regressor {
  explicit TreeEnsembleRegressor(const AttributeSet& attributes)
      : Regressor(read_forest(attributes, "target", attributes.get_int("n_targets", 1)),
                  aggregate(attributes.get_string("aggregate_function", "SUM")),
                  post_transform(attributes.get_string("post_transform", "NONE")),
                  number_list(attributes, "base_values")) {}
  void run(KernelContext& context) const { Regressor::run(context, DType::F32); }

 private:
  static Aggregate aggregate(std::string_view name) {
    constexpr std::string_view kNames[] = {"AVERAGE", "SUM", "MIN", "MAX"};
    const auto found = std::ranges::find(kNames, name);
    if (found == std::end(kNames)) refuse("'{}' is no aggregate_function", name);
    return static_cast<Aggregate>(found - std::begin(kNames));
  }
};

// A model of two classes may vote for one only: its score is that of the second class, by its weights a probability
// (all positive; decided at 1/2) or a signed score (decided at 0). Else the class with the highest score wins, of
// those that a leaf voted for.
class TreeEnsembleClassifier {
 public:
  explicit TreeEnsembleClassifier(const AttributeSet& attributes)
      : labels_(attributes, "classlabels_int64s", "classlabels_strings"),
        forest_(read_forest(attributes, "class", static_cast<int64_t>(labels_.size()))),
        transform_(post_transform(attributes.get_string("post_transform", "NONE"))),
        base_(number_list(attributes, "base_values")) {
    if (labels_.size() == 0) refuse("no class labels are given");
    const auto& votes = forest_.votes;
    only_ = votes.empty() ? 0 : static_cast<size_t>(votes[0].target);
    binary_ = labels_.size() == 2 &&
              std::ranges::all_of(votes, [&](const Vote& vote) { return vote.target == votes[0].target; });
    probability_ = std::ranges::all_of(votes, [](const Vote& vote) { return vote.weight >= 0; });
    if (base_.size() == 1 && binary_) {
      base_.resize(2);
      if (only_ == 1) std::swap(base_[0], base_[1]);
    }
    if (!base_.empty()) require_length(base_.size(), labels_.size(), "base_values");
  }

  void run(KernelContext& context) const {
    const FeatureRows rows(context.input(0));
    const ScoreTable table(context, rows.rows(), labels_.size());
    const auto classes = context.workspace_of<int64_t>(static_cast<size_t>(rows.rows()));
    forest_.for_each_row(rows, Aggregate::Sum, [&](int64_t row, Scores scores) {
      for (size_t i = 0; i < base_.size(); ++i) scores.values[i] += base_[i];
      classes[static_cast<size_t>(row)] = winner(scores);
      const std::span<double> result = table.row(static_cast<size_t>(row));
      if (binary_ && only_ == 0) {
        set_binary_scores(transform_, scores.values[0], probability_, result);
      } else {
        transform_scores(transform_, scores.values);
        std::ranges::copy(scores.values, result.begin());
      }
    });
    labels_.write(context, classes);
    table.write(context, 1);
  }

 private:
  int64_t winner(Scores scores) const {
    if (binary_) return scores.values[only_] > (probability_ ? 0.5 : 0.0);
    int64_t best = -1;
    for (size_t i = 0; i < scores.values.size(); ++i) {
      if (!scores.voted[i] && base_.empty()) continue;
      if (best < 0 || scores.values[i] > scores.values[static_cast<size_t>(best)]) best = static_cast<int64_t>(i);
    }
    return std::max<int64_t>(best, 0);
  }

  ClassLabels labels_;
  Forest forest_;
  PostTransform transform_;
  std::vector<double> base_;
  size_t only_ = 0;
  bool binary_ = false, probability_ = false;
};

}  // namespace

void register_ml_trees(KernelRegistry& registry) {
  registry.add("ai.onnx.ml::TreeEnsemble", run_operation<TreeEnsemble>);
  registry.add("ai.onnx.ml::TreeEnsembleClassifier", run_operation<TreeEnsembleClassifier>);
  registry.add("ai.onnx.ml::TreeEnsembleRegressor", run_operation<TreeEnsembleRegressor>);
}

void prepare_ml_trees(PreparedRegistry& registry) {
  registry.add("ai.onnx.ml::TreeEnsemble", "forest", prepare_operation<TreeEnsemble>);
  registry.add("ai.onnx.ml::TreeEnsembleClassifier", "forest", prepare_operation<TreeEnsembleClassifier>);
  registry.add("ai.onnx.ml::TreeEnsembleRegressor", "forest", prepare_operation<TreeEnsembleRegressor>);
}

}  // namespace anfora::kernels
