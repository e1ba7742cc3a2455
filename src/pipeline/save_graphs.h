// A folder with the module after each stage of a pipeline, behind what a front end made it of: NN_stage.ir, NN_stage.dot and, where Graphviz is installed,
// NN_stage.svg; the constants of all of them in one file; and index.html, which says what each stage did and shows the pictures.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/sidecar.h"
#include "rewrite/remarks.h"
#include "rewrite/rule_set.h"

namespace anfora::pipeline {

// What a module was before it was one, as a front end has it.
struct TextStage {
  std::string name, doc, ending, text;  // saved as NN_name.ending, in front of the others
};

class GraphSaver {
 public:
  // Makes the folder, or throws Io. The remarks are those that the stages make; of the rules, the index has the equations.
  GraphSaver(std::filesystem::path folder, const rewrite::Remarks& remarks, const rewrite::RuleSet& rules);

  void save(const TextStage& stage);
  // `round` is 0 for what belongs to none.
  // `doc` says what the stage is, for the index.
  void save(const ir::Module& module, std::string_view stage, std::string_view doc, size_t round);
  // Writes the constants, without which the texts cannot be read, and the index.
  void finish(const ir::Module& module);

 private:
  // What a stage left, and which remarks it made.
  struct Stage {
    std::string name, doc, file;
    size_t round, nodes;
    bool has_picture;
    size_t first_remark, end_of_remarks;
  };
  std::string index(const ir::Module& module) const;
  void append_stage(std::string& html, const Stage& stage, const Stage* before, size_t most_nodes) const;
  void append_rewrites(std::string& html, const Stage& stage) const;

  std::filesystem::path folder_;
  const rewrite::Remarks& remarks_;
  const rewrite::RuleSet& rules_;
  ir::Sidecar constants_;
  std::vector<Stage> stages_;
  std::string texts_;  // links to those that are text, for the index
  size_t num_texts_ = 0;
};

}  // namespace anfora::pipeline
