package railyard

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// tokenPrefix is the first part of every API token.
const tokenPrefix = "rail-user-v1"

var (
	tokenForm     = regexp.MustCompile(`^` + tokenPrefix + `\.[0-9a-f]{16}\.[0-9a-f]{64}$`)
	contextFields = []string{"controller", "ca", "cert", "key", "token", "tenant"}
)

// settings are what is needed to reach a controller.
type settings struct {
	controller    []string
	ca, cert, key string
	token, tenant string
}

// environment reads the variables of the process that are not empty.
func environment() map[string]string {
	found := map[string]string{}
	for _, one := range os.Environ() {
		if name, value, ok := strings.Cut(one, "="); ok && value != "" {
			found[name] = value
		}
	}
	return found
}

func first(all ...string) string {
	for _, one := range all {
		if one != "" {
			return one
		}
	}
	return ""
}

// load finds settings as railctl does: options, then environment, then the context. An identity (certificate with key, or token) is taken
// whole from the first place that names any part of it.
func load(given Options, env map[string]string) (*settings, error) {
	found := &settings{controller: given.Controller}
	if len(found.controller) == 0 {
		for _, one := range strings.Split(env["RAIL_CONTROLLER"], ",") {
			if one = strings.TrimSpace(one); one != "" {
				found.controller = append(found.controller, one)
			}
		}
	}
	chosen, err := chooseContext(given, len(found.controller) > 0, env)
	if err != nil {
		return nil, err
	}
	if len(found.controller) == 0 {
		found.controller = chosen.controller
	}
	found.ca = first(given.CA, env["RAIL_CA"], chosen.ca)
	identities := [][3]string{
		{given.Cert, given.Key, given.Token},
		{env["RAIL_CERT"], env["RAIL_KEY"], env["RAIL_TOKEN"]},
		{chosen.cert, chosen.key, chosen.token},
	}
	for _, one := range identities {
		if one != [3]string{} {
			found.cert, found.key = one[0], one[1]
			if found.token, err = tokenOf(one[2]); err != nil {
				return nil, err
			}
			break
		}
	}
	found.tenant = chosen.tenant
	if value, ok := env["RAIL_TENANT"]; ok {
		found.tenant = value
	}
	if given.Tenant != nil {
		found.tenant = *given.Tenant
	}
	return found, found.check()
}

// check says what is missing that every call needs.
func (s *settings) check() error {
	if len(s.controller) == 0 {
		return wrongConfig("no controller is known: give Controller or RAIL_CONTROLLER, or start a local cluster with `railctl dev up`, which makes " +
			"a context in the configuration file")
	}
	if s.ca == "" {
		return wrongConfig("no CA certificate is known, so the controller could not be verified: give CA or RAIL_CA")
	}
	if (s.cert == "") != (s.key == "") {
		missing := "key"
		if s.cert == "" {
			missing = "certificate"
		}
		return wrongConfig("a client certificate and its key go together: the %s is not given", missing)
	}
	return nil
}

// tokenOf gives the token itself, or what a file of that name holds. No error shows it, nor what was taken for a file's name: that may be
// the secret, written badly.
func tokenOf(given string) (string, error) {
	if given == "" {
		return "", nil
	}
	if !strings.HasPrefix(given, tokenPrefix) {
		data, err := os.ReadFile(given)
		if err != nil {
			why := err
			var path *fs.PathError
			if errors.As(err, &path) {
				why = path.Err
			}
			return "", wrongConfig("credentials: not a token, which begins with `%s.` and has neither blanks nor quotation marks, nor the path of a "+
				"file that can be read: %v", tokenPrefix, why)
		}
		given = strings.TrimSpace(string(data))
	}
	if !tokenForm.MatchString(given) {
		return "", wrongConfig("credentials: not a token: expected %s.<16 hex digits>.<64 hex digits>", tokenPrefix)
	}
	return given, nil
}

// configPath is that of railctl's configuration file; empty if neither HOME nor RAIL_CONFIG is set.
func configPath(given Options, env map[string]string) string {
	if path := first(given.Config, env["RAIL_CONFIG"]); path != "" {
		return path
	}
	if base := env["XDG_CONFIG_HOME"]; filepath.IsAbs(base) {
		return filepath.Join(base, "railyard/config.yaml")
	}
	if home := env["HOME"]; home != "" {
		return filepath.Join(home, ".config/railyard/config.yaml")
	}
	return ""
}

// chooseContext gives the context that is meant; an empty one where none is.
func chooseContext(given Options, addressed bool, env map[string]string) (settings, error) {
	current, contexts, err := readConfig(configPath(given, env))
	if err != nil {
		return settings{}, err
	}
	wanted := first(given.Context, env["RAIL_CONTEXT"])
	chosen := first(wanted, current)
	if chosen == "" {
		return settings{}, nil
	}
	if found, ok := contexts[chosen]; ok {
		return found, nil
	}
	if wanted == "" && addressed {
		return settings{}, nil
	}
	names := make([]string, 0, len(contexts))
	for name := range contexts {
		names = append(names, name)
	}
	slices.Sort(names)
	known := "the configuration file has none"
	if len(names) > 0 {
		known = "there are: " + strings.Join(names, ", ")
	}
	return settings{}, wrongConfig("there is no context `%s`; %s", chosen, known)
}

// readConfig gives the current context's name, and all contexts; relative paths are relative to the file's folder.
func readConfig(path string) (string, map[string]settings, error) {
	if path == "" {
		return "", nil, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, wrongConfig("%s: %v", path, err)
	}
	value, err := parseYAML(string(data), path)
	if err != nil {
		return "", nil, err
	}
	file, err := mappingOf(path, value, []string{"currentContext", "contexts"}, "the file")
	if err != nil {
		return "", nil, err
	}
	all, err := mappingOf(path, file["contexts"], nil, "contexts")
	if err != nil {
		return "", nil, err
	}
	contexts := map[string]settings{}
	for name, one := range all {
		fields, err := mappingOf(path, one, contextFields, "context `"+name+"`")
		if err != nil {
			return "", nil, err
		}
		if contexts[name], err = contextOf(path, name, fields); err != nil {
			return "", nil, err
		}
	}
	current, _ := file["currentContext"].(string)
	return current, contexts, nil
}

func contextOf(path, name string, fields map[string]any) (settings, error) {
	word := func(field string) string {
		found, _ := fields[field].(string)
		return found
	}
	file := func(field string) string {
		found := word(field)
		if found != "" && !filepath.IsAbs(found) {
			found = filepath.Join(filepath.Dir(path), found)
		}
		return found
	}
	found := settings{ca: file("ca"), cert: file("cert"), key: file("key"), token: word("token"), tenant: word("tenant")}
	switch addresses := fields["controller"].(type) {
	case nil:
	case []any:
		for _, one := range addresses {
			address, _ := one.(string)
			found.controller = append(found.controller, address)
		}
	default:
		return found, wrongConfig("%s: context `%s`: controller is a list of addresses", path, name)
	}
	return found, nil
}

// mappingOf reads a mapping with these fields, or any.
func mappingOf(path string, value any, fields []string, where string) (map[string]any, error) {
	if value == nil || value == "" {
		return nil, nil
	}
	found, ok := value.(map[string]any)
	if !ok {
		return nil, wrongConfig("%s: %s is no mapping", path, where)
	}
	for name := range found {
		if fields != nil && !slices.Contains(fields, name) {
			return nil, wrongConfig("%s: %s: unknown field `%s`, expected one of %s", path, where, name, strings.Join(fields, ", "))
		}
	}
	return found, nil
}
