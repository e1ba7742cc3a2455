"""The blocks, the pieces of code and the links of a page in Markdown."""
import re

DIRECTIVE = re.compile(r"<!-- test: (.*?) -->$")
FENCE = re.compile(r"```(\w*)$")


class Block:
    """Code set apart: its lines without indentation, the language of its fence, what a comment above says about it."""

    def __init__(self, page, first, lines, indent, language, directive):
        self.page, self.first, self.lines, self.indent = page, first, lines, indent
        self.language, self.directive, self.count = language, directive, len(lines)

    @property
    def place(self):
        return self.page.place(self.first)

    @property
    def text(self):
        return "\n".join(self.lines) + "\n"


class Page:
    def __init__(self, path):
        self.path = path
        self.lines = path.read_text().split("\n")
        self._blocks, self._prose = [], []
        self._parse()

    def _parse(self):
        at, directive, was_blank, in_list = 0, "", True, 0
        while at < len(self.lines):
            line = self.lines[at]
            match = DIRECTIVE.match(line.strip())
            fence = FENCE.match(line)
            item = re.match(r"(\d+\.|-) +", line)
            if item:
                in_list = len(item[0])
            elif line and not line.startswith(" "):
                in_list = 0
            indent = in_list + 4
            if match:
                directive = match[1]
            elif fence:
                end = next(i for i in range(at + 1, len(self.lines)) if self.lines[i] == "```")
                self._add(at + 1, end, 0, fence[1], directive)
                directive, at = "", end
            elif was_blank and line.startswith(" " * indent):
                end = at
                while end < len(self.lines) and (not self.lines[end] or self.lines[end].startswith(" " * indent)):
                    end += 1
                while not self.lines[end - 1]:
                    end -= 1
                self._add(at, end, indent, "", directive)
                directive, at = "", end - 1
            else:
                self._prose.append((at, line))
            was_blank = not line.strip() or bool(match)
            at += 1

    def _add(self, begin, end, indent, language, directive):
        lines = [line[indent:] for line in self.lines[begin:end]]
        self._blocks.append(Block(self, begin, lines, indent, language, directive))

    def blocks(self):
        return self._blocks

    def spans(self):
        """Code between back quotes in the text, which may go on in the next line."""
        text = "\n".join(line for _, line in self._prose)
        found = []
        for match in re.finditer(r"(?<!`)`([^`]+)`(?!`)", text):
            number = self._prose[text.count("\n", 0, match.start())][0]
            found.append((number, re.sub(r"\s*\n\s*", " ", match[1]).replace("\\|", "|")))
        return found

    def links(self):
        found = []
        for number, line in self._prose:
            for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", line) + re.findall(r'src="([^":]+)"', line):
                found.append((self.place(number), target))
        return found

    def place(self, line):
        return f"{self.path.name}:{line + 1}"

    def replace(self, block, begin, end, lines):
        """Other lines in the place of some of a block's; written by save()."""
        block.lines[begin:end] = lines

    def save(self):
        lines, at = [], 0
        for block in self._blocks:
            lines += self.lines[at:block.first]
            lines += [(" " * block.indent + line).rstrip() for line in block.lines]
            at = block.first + block.count
        self.path.write_text("\n".join(lines + self.lines[at:]))
