package railyard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// mostDocuments are planned together at most.
const mostDocuments = 256

// kind says how documents of one kind are planned, applied and read.
type kind struct {
	// field of a planned document.
	field string
	// apply is nil for jobs, which are submitted.
	apply *operation
	get   operation
	// ofTenant: it belongs to a tenant.
	ofTenant bool
}

// ApplyOptions say how documents are applied.
type ApplyOptions struct {
	// DryRun stores nothing: the answer is what would come of them.
	DryRun bool
	// AllowShrink: much fewer servers than the present fabric cables are meant.
	AllowShrink bool
	// ReuseNames of tenants that were deleted not long ago.
	ReuseNames bool
}

// FieldChange is one field that is another: its path, and its value before and after (nil: it is not there).
type FieldChange struct {
	Path          string
	Before, After any
}

// Change is what comes of one document.
type Change struct {
	// Kind, Name and Tenant of the document.
	Kind, Name, Tenant string
	// Outcome is CREATED, CHANGED, UNCHANGED or REFUSED.
	Outcome PlannedDocumentOutcome
	// Before and After: the document as it is, nil where it is not there, and as it would be; neither of them for a secret.
	Before, After map[string]any
	// Refusal is why it is refused.
	Refusal error
	// Applied is the answer of the call that has applied it; nil in a dry run, and where nothing was to be done.
	Applied json.RawMessage
}

// Fields that differ, by their paths.
func (c *Change) Fields() []FieldChange {
	if c.Outcome != PlannedDocumentOutcomeCreated && c.Outcome != PlannedDocumentOutcomeChanged {
		return nil
	}
	return compared(nil, "", orNil(c.Before), orNil(c.After))
}

// Diff is the difference as `diff -u` writes it; empty where there is none.
func (c *Change) Diff() string {
	return unified(linesOf(c.Before), linesOf(c.After), c.String()+" as it is", c.String())
}

var betweenWords = regexp.MustCompile(`([a-z])([A-Z])`)

func (c *Change) String() string {
	kind := strings.ToLower(betweenWords.ReplaceAllString(c.Kind, "$1-$2"))
	if c.Tenant == "" {
		return kind + "/" + c.Name
	}
	return kind + "/" + c.Tenant + "/" + c.Name
}

func orNil(value map[string]any) any {
	if value == nil {
		return nil
	}
	return value
}

func linesOf(value map[string]any) []string {
	if value == nil {
		return nil
	}
	var found bytes.Buffer
	encoder := json.NewEncoder(&found)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(value)
	return strings.Split(strings.TrimSuffix(found.String(), "\n"), "\n")
}

// compared adds fields that differ; lists are compared whole.
func compared(found []FieldChange, path string, before, after any) []FieldChange {
	old, isTree := before.(map[string]any)
	young, both := after.(map[string]any)
	if !isTree || !both {
		if !reflect.DeepEqual(before, after) {
			found = append(found, FieldChange{path, before, after})
		}
		return found
	}
	keys := []string{}
	for key := range old {
		keys = append(keys, key)
	}
	for key := range young {
		if _, there := old[key]; !there {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		below := key
		if path != "" {
			below = path + "." + key
		}
		found = compared(found, below, old[key], young[key])
	}
	return found
}

// Changes are what comes of documents, in their order.
type Changes struct {
	All    []*Change
	DryRun bool
}

// Changed says that something is not as the documents say, or was not.
func (c *Changes) Changed() bool {
	return slices.ContainsFunc(c.All, func(one *Change) bool { return one.Outcome != PlannedDocumentOutcomeUnchanged })
}

// Refused are those that the controller refuses.
func (c *Changes) Refused() []*Change {
	var found []*Change
	for _, one := range c.All {
		if one.Outcome == PlannedDocumentOutcomeRefused {
			found = append(found, one)
		}
	}
	return found
}

// String is for people.
func (c *Changes) String() string {
	var lines []string
	for _, one := range c.All {
		line := fmt.Sprintf("%s %s", one, strings.ToLower(string(one.Outcome)))
		if one.Refusal != nil {
			line += ": " + one.Refusal.Error()
		}
		lines = append(lines, line)
		if one.Outcome == PlannedDocumentOutcomeChanged {
			for _, field := range one.Fields() {
				lines = append(lines, fmt.Sprintf("  %s: %s -> %s", field.Path, shown(field.Before), shown(field.After)))
			}
		}
	}
	return strings.Join(lines, "\n")
}

func shown(value any) string {
	if value == nil {
		return "nothing"
	}
	data, _ := json.Marshal(value)
	return string(data)
}

// Apply makes the cluster as documents say, and says what that changes; with DryRun it only says so. A document is whatever JSON makes an
// object of with a field `kind`: a *Queue, a map, a json.RawMessage. They are judged together, each as if those before it had been applied:
// if one would be refused, nothing is applied and *ApplyRefusedError says why. What is as its document says is left alone.
func (c *Client) Apply(ctx context.Context, documents []any, options ApplyOptions) (*Changes, error) {
	read := make([]tree, len(documents))
	for i, one := range documents {
		found, err := treeOf(one)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
		read[i] = found
	}
	a := &applier{core: c.core, options: options}
	changes := &Changes{DryRun: options.DryRun}
	var err error
	if changes.All, err = a.plan(ctx, read); err != nil || options.DryRun {
		return changes, err
	}
	if len(changes.Refused()) > 0 {
		return changes, &ApplyRefusedError{changes}
	}
	for i, one := range changes.All {
		if one.Outcome == PlannedDocumentOutcomeUnchanged {
			continue
		}
		if err := a.apply(ctx, read[i], one); err != nil {
			return changes, err
		}
	}
	return changes, nil
}

type applier struct {
	core    *core
	options ApplyOptions
}

func kindOf(document tree) (kind, error) {
	name, _ := document["kind"].(string)
	found, ok := kinds[name]
	if !ok {
		names := make([]string, 0, len(kinds))
		for one := range kinds {
			names = append(names, one)
		}
		slices.Sort(names)
		return kind{}, wrongConfig("kind `%s` is not made by a document; %s are", name, strings.Join(names, ", "))
	}
	return found, nil
}

func metadataIn(document tree) tree {
	found, _ := document["metadata"].(tree)
	return found
}

func word(document tree, name string) string {
	found, _ := document[name].(string)
	return found
}

type planned struct {
	Outcome  PlannedDocumentOutcome     `json:"outcome"`
	Document map[string]json.RawMessage `json:"document"`
	Refusal  *wireError                 `json:"refusal"`
}

// document gives what the plan says that a document of this field would be; nil where it does not.
func (p *planned) document(field string) (tree, error) {
	data, ok := p.Document[field]
	if !ok {
		return nil, nil
	}
	return readTree(data)
}

// ask gives what the controller says that would come of documents, each as if those before it had been applied.
func (a *applier) ask(ctx context.Context, documents []tree) ([]planned, error) {
	if len(documents) == 0 {
		return nil, nil
	}
	if len(documents) > mostDocuments {
		return nil, wrongConfig("%d documents; %d are applied together at most", len(documents), mostDocuments)
	}
	wired := make([]map[string]json.RawMessage, len(documents))
	for i, one := range documents {
		kind, err := kindOf(one)
		if err != nil {
			return nil, err
		}
		data, err := json.Marshal(one)
		if err == nil && kind.ofTenant && kind.apply != nil {
			data, err = a.core.owned(data)
		}
		if err != nil {
			return nil, err
		}
		wired[i] = map[string]json.RawMessage{kind.field: data}
	}
	given := fields{}
	given["documents"], _ = json.Marshal(wired)
	if a.options.AllowShrink {
		given["allowShrink"] = json.RawMessage("true")
	}
	if a.options.ReuseNames {
		given["reuseNames"] = json.RawMessage("true")
	}
	var answer struct {
		Documents []planned `json:"documents"`
	}
	if err := a.core.do(ctx, opPlanDocuments, nil, given, nil, &answer); err != nil {
		return nil, err
	}
	if len(answer.Documents) != len(documents) {
		message := "the plan has another number of documents"
		return nil, made("internal", APIError{Message: message, Reason: "BROKEN_ANSWER", Operation: opPlanDocuments.name})
	}
	return answer.Documents, nil
}

// plan says what documents would change, with what there is now.
func (a *applier) plan(ctx context.Context, documents []tree) ([]*Change, error) {
	answers, err := a.ask(ctx, documents)
	if err != nil {
		return nil, err
	}
	found := make([]*Change, len(documents))
	for i := range documents {
		if found[i], err = a.change(ctx, documents[i], &answers[i]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (a *applier) change(ctx context.Context, document tree, answer *planned) (*Change, error) {
	kind, err := kindOf(document)
	if err != nil {
		return nil, err
	}
	after, err := answer.document(kind.field)
	if err != nil {
		return nil, err
	}
	metadata := metadataIn(document)
	if after != nil {
		metadata = metadataIn(after)
	}
	change := &Change{Kind: word(document, "kind"), Name: word(metadata, "name"), Outcome: answer.Outcome}
	if change.Name == "" {
		change.Name = word(metadata, "generateName")
	}
	if kind.ofTenant {
		if change.Tenant = word(metadata, "tenant"); change.Tenant == "" {
			change.Tenant = a.core.tenant
		}
	}
	var refusal *APIError
	if answer.Refusal != nil {
		change.Refusal = answer.Refusal.of(0, "apply "+change.String())
		errors.As(change.Refusal, &refusal)
	}
	switch {
	case kind.apply == nil && refusal != nil && refusal.Reason == "NAME_TAKEN":
		return change, a.sameJob(ctx, document, change)
	case kind.field == "secret" || refusal != nil:
		return change, nil
	}
	if change.Outcome != PlannedDocumentOutcomeCreated {
		before, err := a.current(ctx, kind, change)
		if err != nil {
			return nil, err
		}
		change.Before = settled(before)
	}
	change.After = settled(after)
	return change, nil
}

// current gives a document as it is; nil where it is not there.
func (a *applier) current(ctx context.Context, kind kind, change *Change) (tree, error) {
	var path map[string]string
	if strings.Contains(kind.get.path, "{name}") {
		path = map[string]string{"name": change.Name}
	}
	given := fields{}
	if kind.ofTenant {
		given["tenant"] = text(change.Tenant)
	}
	var data json.RawMessage
	err := a.core.do(ctx, kind.get, path, given, nil, &data)
	if is(err, "not-found") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return readTree(data)
}

// sameJob: a job whose name is taken is unchanged if the one that is there asks for the same, as the controller reads it.
func (a *applier) sameJob(ctx context.Context, document tree, change *Change) error {
	kind := kinds["Job"]
	there, err := a.current(ctx, kind, change)
	if err != nil || there == nil {
		return err
	}
	other := tree{"generateName": "plan-"}
	for key, value := range metadataIn(document) {
		if key != "name" {
			other[key] = value
		}
	}
	renamed := tree{}
	for key, value := range document {
		renamed[key] = value
	}
	renamed["metadata"] = other
	answers, err := a.ask(ctx, []tree{renamed})
	if err != nil {
		return err
	}
	meant, err := answers[0].document(kind.field)
	if err != nil || meant == nil {
		return err
	}
	change.Before, change.After = settled(there), settled(meant)
	for _, one := range []tree{change.Before, change.After} {
		// The controller finds the others.
		metadata := tree{"name": change.Name}
		if labels, ok := metadataIn(one)["labels"]; ok {
			metadata["labels"] = labels
		}
		one["metadata"] = metadata
	}
	if reflect.DeepEqual(change.Before, change.After) {
		change.Outcome, change.Refusal = PlannedDocumentOutcomeUnchanged, nil
	}
	return nil
}

// settled is only what a document says: no status, and of the metadata the names and labels.
func settled(document tree) tree {
	if document == nil {
		return nil
	}
	found := tree{}
	for key, value := range document {
		if key != "status" {
			found[key] = value
		}
	}
	if spec, ok := found["spec"].(tree); ok && word(found, "kind") == "Webhook" {
		// It is shown once, to whoever has it made.
		open := tree{}
		for key, value := range spec {
			if key != "secret" {
				open[key] = value
			}
		}
		found["spec"] = open
	}
	kept := tree{}
	for _, key := range []string{"name", "tenant", "labels", "generateName"} {
		if value, ok := metadataIn(document)[key]; ok {
			kept[key] = value
		}
	}
	found["metadata"] = kept
	return found
}

// apply makes one document so.
func (a *applier) apply(ctx context.Context, document tree, change *Change) error {
	kind, err := kindOf(document)
	if err != nil {
		return err
	}
	op, given := opCreateJob, fields{}
	if kind.apply != nil {
		op = *kind.apply
	}
	if kind.field == "fabric" && a.options.AllowShrink {
		given["allowShrink"] = json.RawMessage("true")
	}
	if kind.field == "tenant" && a.options.ReuseNames {
		given["reuseName"] = json.RawMessage("true")
	}
	if err := a.core.do(ctx, op, nil, given, document, &change.Applied); err != nil {
		return err
	}
	if kind.apply == nil {
		made, err := readTree(change.Applied)
		if err != nil {
			return err
		}
		change.Name = word(metadataIn(made), "name")
	}
	return nil
}
