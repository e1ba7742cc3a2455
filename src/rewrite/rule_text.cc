#include "rewrite/rule_text.h"

#include <algorithm>

namespace anfora::rewrite {

std::string skip_comments(std::string_view text, size_t& at) {
  std::string doc;
  for (; at < text.size(); ++at) {
    char c = text[at];
    if (c == '#') {
      size_t end = std::min(text.find('\n', at), text.size());
      std::string_view line = text.substr(at + 1, end - at - 1);
      line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
      doc += (doc.empty() ? "" : " ") + std::string(line);
      at = end;  // an empty line behind it shows that it is about the file
    } else if (c == '\n') {
      doc.clear();
    } else if (c != ' ' && c != '\t' && c != '\r') {
      break;
    }
    if (at >= text.size()) break;
  }
  at = std::min(at, text.size());
  return doc;
}

size_t end_of_statement(std::string_view text, size_t at) {
  size_t end = std::min(text.find('\n', at), text.size());
  while (end < text.size()) {
    size_t next = end + 1, next_end = std::min(text.find('\n', next), text.size());
    std::string_view line = text.substr(next, next_end - next);
    bool continues = line.starts_with(' ') && line.find_first_not_of(" \t\r") != std::string_view::npos;
    if (!continues) break;
    end = next_end;
  }
  return end;
}

std::string on_one_line(std::string_view text) {
  std::string line;
  for (char c : text) {
    bool blank = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!blank) line += c;
    if (blank && !line.empty() && line.back() != ' ') line += ' ';
  }
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

}  // namespace anfora::rewrite
