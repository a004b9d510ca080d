package railyard

import (
	"encoding/json"
	"regexp"
	"strings"
)

// The little YAML that railctl's configuration file needs: mappings, lists, and texts on one line. Every scalar is a text.

// maxDepth is deeper than any configuration file.
const maxDepth = 8

var (
	quotedForm = regexp.MustCompile(`^(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')`)
	itemForm   = regexp.MustCompile(`^-(\s|$)`)
	colonForm  = regexp.MustCompile(`:(\s|$)`)
	plainForm  = regexp.MustCompile(`^[^,\][{}"']+`)
)

type yamlLine struct {
	number, indent int
	text           string
}

type yamlReader struct {
	path  string
	lines []yamlLine
	at    int
}

// parseYAML reads one document; an empty one is nil. A *ConfigError names the line and shows nothing of it.
func parseYAML(given, path string) (any, error) {
	r := &yamlReader{path: path}
	for i, raw := range strings.Split(given, "\n") {
		line := bare(strings.TrimSuffix(raw, "\r"))
		if line == "" || line == "---" {
			continue
		}
		body := strings.TrimLeft(line, " \t")
		one := yamlLine{i + 1, len(line) - len(body), body}
		if strings.Contains(line[:one.indent], "\t") {
			return nil, r.wrong(one, "tabs do not indent")
		}
		r.lines = append(r.lines, one)
	}
	if len(r.lines) == 0 {
		return nil, nil
	}
	value, err := r.block(0)
	if err == nil && r.at < len(r.lines) {
		err = r.wrong(r.lines[r.at], "this is indented as nothing before it, or is no `key: value`")
	}
	return value, err
}

// bare is a line without its comment: a # behind a blank, outside of quotation marks that begin a value.
func bare(raw string) string {
	for at := 0; at < len(raw); at++ {
		if raw[at] == '#' && (at == 0 || raw[at-1] == ' ' || raw[at-1] == '\t') {
			return strings.TrimRight(raw[:at], " \t")
		}
		if at == 0 || strings.IndexByte(" \t[{,:-", raw[at-1]) >= 0 {
			if quoted := quotedForm.FindString(raw[at:]); quoted != "" {
				at += len(quoted) - 1
			}
		}
	}
	return strings.TrimRight(raw, " \t")
}

func (r *yamlReader) wrong(line yamlLine, message string) error {
	return wrongConfig("%s:%d: %s", r.path, line.number, message)
}

// block is the mapping or list that begins here.
func (r *yamlReader) block(depth int) (any, error) {
	line := r.lines[r.at]
	if depth > maxDepth {
		return nil, r.wrong(line, "nested too deep for a configuration file")
	}
	if itemForm.MatchString(line.text) {
		return r.items(line.indent)
	}
	return r.mapping(line.indent, depth)
}

func (r *yamlReader) items(indent int) (any, error) {
	found := []any{}
	for r.at < len(r.lines) {
		line := r.lines[r.at]
		if line.indent != indent || !itemForm.MatchString(line.text) {
			break
		}
		value, err := r.flow(line, strings.TrimSpace(line.text[1:]))
		if err != nil {
			return nil, err
		}
		found = append(found, value)
		r.at++
	}
	return found, nil
}

func (r *yamlReader) mapping(indent, depth int) (any, error) {
	found := map[string]any{}
	for r.at < len(r.lines) {
		line := r.lines[r.at]
		if line.indent != indent {
			break
		}
		name, rest, err := r.key(line)
		if err != nil {
			return nil, err
		}
		if _, there := found[name]; there {
			return nil, r.wrong(line, "`"+name+"` stands here twice")
		}
		r.at++
		deeper := false
		if r.at < len(r.lines) {
			next := r.lines[r.at]
			deeper = next.indent > indent || (next.indent == indent && itemForm.MatchString(next.text))
		}
		switch {
		case rest != "":
			found[name], err = r.flow(line, rest)
		case deeper:
			found[name], err = r.block(depth + 1)
		default:
			found[name] = nil
		}
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// key gives the key of a line, and what follows its colon.
func (r *yamlReader) key(line yamlLine) (string, string, error) {
	quoted := quotedForm.FindString(line.text)
	end := len(quoted)
	if quoted == "" {
		found := colonForm.FindStringIndex(line.text)
		if found == nil {
			return "", "", r.wrong(line, "expected `key: value`")
		}
		end = found[0]
	}
	rest := strings.TrimLeft(line.text[end:], " \t")
	if found := colonForm.FindStringIndex(rest); found == nil || found[0] != 0 {
		return "", "", r.wrong(line, "expected `key: value`")
	}
	name := strings.TrimSpace(line.text[:end])
	if quoted != "" {
		var err error
		if name, err = r.scalar(line, quoted); err != nil {
			return "", "", err
		}
	}
	return name, strings.TrimSpace(rest[1:]), nil
}

// flow is a value on one line: a text, or a list in brackets.
func (r *yamlReader) flow(line yamlLine, given string) (any, error) {
	if !strings.HasPrefix(given, "[") {
		if given != "" && strings.IndexByte("{&*!|>", given[0]) >= 0 {
			return nil, r.wrong(line, "only texts and lists stand behind a key in a configuration file")
		}
		return r.scalar(line, given)
	}
	found := []any{}
	rest := strings.TrimSpace(given[1:])
	for !strings.HasPrefix(rest, "]") {
		part := first(quotedForm.FindString(rest), plainForm.FindString(rest))
		if part == "" {
			return nil, r.wrong(line, "a list in brackets has texts, with commas between them, and ends with `]`")
		}
		value, err := r.scalar(line, strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		found = append(found, value)
		rest = strings.TrimSpace(rest[len(part):])
		if after, ok := strings.CutPrefix(rest, ","); ok {
			rest = strings.TrimSpace(after)
		} else if !strings.HasPrefix(rest, "]") {
			return nil, r.wrong(line, "a list in brackets has texts, with commas between them, and ends with `]`")
		}
	}
	if rest != "]" {
		return nil, r.wrong(line, "something stands behind a list")
	}
	return found, nil
}

func (r *yamlReader) scalar(line yamlLine, given string) (string, error) {
	quoted := quotedForm.FindString(given)
	switch {
	case quoted == "" && given != "" && (given[0] == '"' || given[0] == '\''):
		return "", r.wrong(line, "a quotation mark has no partner")
	case quoted == "" && (given == "~" || given == "null"):
		return "", nil
	case quoted == "":
		return given, nil
	case len(quoted) < len(given):
		return "", r.wrong(line, "something stands behind a quoted text")
	case quoted[0] == '\'':
		return strings.ReplaceAll(quoted[1:len(quoted)-1], "''", "'"), nil
	}
	var found string
	if err := json.Unmarshal([]byte(quoted), &found); err != nil {
		return "", r.wrong(line, "a text is not quoted as JSON quotes")
	}
	return found, nil
}
