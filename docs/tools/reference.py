"""reference.py FOLDER: writes the public declarations of all headers, as clang sees them, with what stands above them: a page of
Markdown for each folder of include/weft. Public is what lies in namespace weft outside of `detail` and isn't refused: a function
whose body is a static_assert exists for its sentence alone. reference.sh adds examples.
Needs clang's Python bindings (Debian: apt-get install python3-clang-14)."""
import re
import sys
from pathlib import Path

from clang import cindex
from clang.cindex import CursorKind as K

ROOT = Path(__file__).resolve().parents[2]
CLASSES = {K.STRUCT_DECL, K.CLASS_DECL, K.CLASS_TEMPLATE, K.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION, K.UNION_DECL}
FUNCTIONS = {K.FUNCTION_DECL, K.FUNCTION_TEMPLATE, K.CXX_METHOD, K.CONSTRUCTOR, K.CONVERSION_FUNCTION}
ALIASES = {K.TYPE_ALIAS_DECL, K.TYPE_ALIAS_TEMPLATE_DECL}
VALUES = {K.VAR_DECL, K.FIELD_DECL}
# libclang 14 has no names for concepts and templates of variables.
UNNAMED = re.compile(r"template ?<[^;{]*?>\s*(concept|(?:inline )?constexpr)\s[^;({]*?\b(\w+)\s*=", re.S)


class Header:
    def __init__(self, path):
        self.path = path
        self.bytes = path.read_bytes()
        self.lines = self.bytes.decode().splitlines()
        head = []
        for line in self.lines:
            if not line.startswith("//"):
                break
            head.append(line.lstrip("/ "))
        self.head = " ".join(head)
        self.entries = []  # (offset, title or None for the rest of an entry, Markdown)

    def text(self, begin, end):
        return self.bytes[begin:end].decode()

    def comment_above(self, line):
        """The /// lines that end above a line, counted from 1."""
        out = []
        while line >= 2 and self.lines[line - 2].strip().startswith("///"):
            line -= 1
            out.append(self.lines[line - 1].strip().lstrip("/").strip())
        return " ".join(reversed(out))

    def comment_behind(self, line):
        found = re.search(r"[;,}] +///?<? *(.*)$", self.lines[line - 1])
        return found.group(1).strip() if found else ""


def on_one_line(text):
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"\[\[[^\]]*\]\] *", "", re.sub(r"\s+", " ", text)).strip()
    return text.rstrip(";").strip()


def body_of(cursor):
    for child in cursor.get_children():
        if child.kind == K.COMPOUND_STMT:
            return child.extent
    return None


def signature(header, cursor):
    begin, end = cursor.extent.start.offset, cursor.extent.end.offset
    if cursor.kind in CLASSES or cursor.kind == K.ENUM_DECL:
        whole = header.text(begin, end)
        if cursor.kind == K.ENUM_DECL:
            return on_one_line(whole)
        return on_one_line(re.split(r"[{;]", whole, 1)[0]).removesuffix(" final")
    if cursor.kind in FUNCTIONS:
        body = body_of(cursor)
        at = cursor.location.offset
        if re.search("[;{]", header.text(begin, at)):  # of f(concept auto) libclang says that it begins where the file does
            begin = header.bytes.rindex(b"\n", 0, at) + 1
        text = header.text(begin, body.start.offset if body else end)
        text = text.replace("WEFT_LINKED ", "inline " if cursor.kind == K.FUNCTION_DECL else "", 1)
        # A constructor's initialisers are nobody's concern.
        if cursor.kind == K.CONSTRUCTOR or cursor.spelling == cursor.semantic_parent.spelling:
            text = re.split(r"\)\s*(?:noexcept\s*)?:\s", text, 1)[0] + (")" if re.search(r"\)\s*(?:noexcept\s*)?:\s", text) else "")
        return on_one_line(text).removesuffix("{}").strip()
    text = on_one_line(header.text(begin, end))
    if cursor.kind in ALIASES or len(text) > 160:
        short = text if len(text) <= 120 else text.split(" = ")[0]
        return short
    return re.sub(r"( = )?\{\}$", "", text)


def refused(header, cursor):
    """Whether all that the body does is to say a sentence."""
    body = body_of(cursor)
    if body is None:
        return False
    text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', header.text(body.start.offset + 1, body.end.offset - 1))
    statements = [s.strip() for s in re.sub(r"//[^\n]*", "", text).split(";")]
    says = r"static_assert\b|(return )?refuse_const\(\)"
    return re.search(says, text) and all(re.match(rf"({says}|using\b|constexpr bool\b|return (\w*|\{{\}})$|$)", s) for s in statements)


def unmade(header, cursor):
    return bool(re.search(r"= (default|delete)\s*;?$", header.text(cursor.extent.start.offset, cursor.extent.end.offset + 1)))


def members(header, cursor):
    out, last = [], None
    for c in cursor.get_children():
        if c.access_specifier != cindex.AccessSpecifier.PUBLIC or c.kind not in CLASSES | FUNCTIONS | ALIASES | VALUES | {K.ENUM_DECL}:
            continue
        if c.location.file.name != cursor.location.file.name or (c.kind in FUNCTIONS and (unmade(header, c) or refused(header, c))):
            continue
        line = c.extent.start.line
        doc = header.comment_above(line) or (header.comment_behind(c.extent.end.line) if c.kind in VALUES else "")
        item = (signature(header, c), doc)
        if c.kind in VALUES and c.extent.start.offset == last:  # double lr = 1, beta = 0.9;
            out.pop()
        last = c.extent.start.offset
        if not doc.startswith("Refused"):
            out.append(item)
    return "".join(f"- `{s}`{': ' + no_links(d) if d else ''}\n" for s, d in out)


def no_links(doc):
    return doc.replace("](", "] (")  # a lambda is no link


def entry(header, title, text, doc, rest=""):
    doc = no_links(doc)
    return f"\n### `{title}`\n\n```text\n{text}\n```\n\n{doc}{chr(10) if doc else ''}{rest}"


def visit(cursor, headers):
    for c in cursor.get_children():
        if c.location.file is None or c.location.file.name not in headers:
            continue
        header = headers[c.location.file.name]
        if c.kind == K.NAMESPACE:
            if c.spelling not in ("detail", ""):
                visit(c, headers)
            continue
        begin, line = c.extent.start.offset, c.extent.start.line
        doc = header.comment_above(line)
        if doc.startswith("Refused"):
            continue
        if c.spelling.startswith("<deduction guide"):
            continue
        macro = re.match(r"(WEFT_\w+)\(", header.text(begin, begin + 80))
        if macro:
            at = next(i for i, text in enumerate(header.lines) if text.startswith("#define " + macro.group(1) + "("))
            doc = header.comment_above(at + 1)
            if doc and not doc.startswith("Refused"):
                header.entries.append((begin, None, (c.spelling, doc)))
        elif c.kind in CLASSES:
            special = "SPECIALIZATION" in c.kind.name
            if c.is_definition() and (doc or not special):  # one that isn't explained is a step of a computation
                title = c.displayname if special else c.spelling
                header.entries.append((begin, title, entry(header, title, signature(header, c), doc, members(header, c))))
        elif c.kind in FUNCTIONS:
            hidden = unmade(header, c) or refused(header, c) or (not doc and c.spelling.startswith("operator"))
            if c.semantic_parent == cursor and not hidden:
                header.entries.append((begin, c.spelling, entry(header, c.spelling, signature(header, c), doc)))
        elif c.kind in ALIASES | VALUES | {K.ENUM_DECL}:
            header.entries.append((begin, c.spelling, entry(header, c.spelling, signature(header, c), doc)))
        else:
            found = UNNAMED.match(header.text(begin, c.extent.end.offset))
            if found:
                text = on_one_line(header.text(begin, begin + found.end() - 1 if found.group(1) != "concept" else c.extent.end.offset))
                header.entries.append((begin, found.group(2), entry(header, found.group(2), text, doc)))


def main(out):
    paths = [p for folder in sorted((ROOT / "include/weft").iterdir()) if folder.is_dir()
             for p in sorted(folder.rglob("*.hpp")) if len(p.relative_to(folder).parts) <= (2 if folder.name == "testing" else 1)]
    headers = {str(p): Header(p) for p in paths}
    all_of_them = "".join(f'#include "{p}"\n' for p in paths)
    resources = sorted(Path("/usr/lib").glob("llvm-*/lib/clang/*/include"))
    args = ["-x", "c++", "-std=c++20", "-ferror-limit=0", f"-I{ROOT}/include"] + [f"-isystem{r}" for r in resources[-1:]]
    # In place of MPI's header, which need not be here, an empty one: what calls it is no declaration of ours.
    unit = cindex.Index.create().parse("all.cpp", args, [("all.cpp", all_of_them), (f"{ROOT}/include/mpi.h", "")])
    wrong = [d for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error and "mpi" not in str(d.location.file)]
    if wrong:
        sys.exit(f"reference.py: {wrong[0]}")
    visit(unit.cursor, headers)
    pages = {}
    for path, header in headers.items():
        folder = Path(path).relative_to(ROOT / "include/weft").parts[0]
        name = Path(path).relative_to(ROOT / "include/weft")
        text, names = "", {}
        for begin, title, made in sorted(header.entries, key=lambda e: e[0]):
            if title is None:
                names.setdefault(made[1], []).append(f"`{made[0]}`")
            else:
                text += made
        grouped = "".join(f"\n### {', '.join(dict.fromkeys(of))}\n\n{no_links(doc)}\n" for doc, of in names.items())
        if text or grouped:
            pages.setdefault(folder, "")
            pages[folder] += f"\n## [{name}](../../include/weft/{name})\n\n{header.head}\n{grouped}{text}"
    for folder, body in pages.items():
        Path(out, folder + ".body").write_text(body)


main(sys.argv[1])
