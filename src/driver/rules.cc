#include "driver/rules.h"

#include "passes/pass.h"
#include "support/mapped_file.h"

namespace anfora::driver {

std::shared_ptr<rewrite::RuleSet> rules_with(ir::Context& context, const std::vector<std::filesystem::path>& files) {
  std::vector<passes::RuleText> own;
  for (const std::filesystem::path& file : files) {
    own.push_back({std::string(MappedFile::open(file)->text()), file.string()});
  }
  return passes::standard_rules(context, own);
}

}  // namespace anfora::driver
