package railyard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxLogs bounds what Logs takes, in bytes; more is a TooLargeError, for which FollowLogs is there.
const maxLogs = 256 << 20

// ended phases are those that a job never leaves.
var ended = []JobStatusPhase{JobStatusPhaseCompleted, JobStatusPhaseFailed, JobStatusPhaseCancelled}

// SubmitOptions is what a job is submitted with beside its command.
type SubmitOptions struct {
	// Nodes is 1 if left out.
	Nodes        int64
	GpusPerNode  int64
	RanksPerNode int64
	// Name is made by the controller if left out.
	Name       string
	Env        map[string]string
	WorkingDir string
	// TimeLimit as the API has it: "90s".
	TimeLimit string
	Queue     string
	Priority  int64
	Labels    map[string]string
	Hold      bool
	// Tenant on whose behalf it is submitted; the client's if left out.
	Tenant string
	// RequestID: repeated with the same one and the same work, it gives the same job.
	RequestID string
	// Spec is merged into the job's spec, for all that has no field here.
	Spec *JobSpec
}

// describe makes the document of a job. One server without GPUs needs no rails.
func describe(argv []string, o SubmitOptions) (*Job, error) {
	if len(argv) == 0 {
		return nil, wrongConfig("submit: the command is empty")
	}
	if o.Spec != nil && o.Spec.Array != "" {
		return nil, wrongConfig("submit: an array is many jobs: use Client.Jobs.Create")
	}
	spec := JobSpec{
		Gang:      &Gang{Nodes: max(o.Nodes, 1), GpusPerNode: o.GpusPerNode, RanksPerNode: o.RanksPerNode},
		Command:   &Command{Argv: argv, Env: o.Env, WorkingDir: o.WorkingDir},
		TimeLimit: o.TimeLimit, Queue: o.Queue, Priority: o.Priority,
	}
	if o.Spec != nil {
		base, err := treeOf(spec)
		if err != nil {
			return nil, err
		}
		over, err := treeOf(o.Spec)
		if err != nil {
			return nil, err
		}
		data, err := json.Marshal(merged(base, over))
		if err != nil {
			return nil, err
		}
		spec = JobSpec{}
		if err := json.Unmarshal(data, &spec); err != nil {
			return nil, err
		}
	}
	if spec.Rails == nil && spec.Gang.Nodes == 1 && spec.Gang.GpusPerNode == 0 {
		spec.Rails = &RailRequest{None: true}
	}
	job := &Job{ApiVersion: "rail/v1", Kind: "Job", Metadata: &Metadata{Name: o.Name, Labels: o.Labels}, Spec: &spec}
	if o.Name == "" {
		job.Metadata.GenerateName = "job-"
	}
	return job, nil
}

// tree is a JSON object.
type tree = map[string]any

// treeOf reads a value as JSON has it; numbers keep their digits.
func treeOf(value any) (tree, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, wrongConfig("a document is no JSON: %v", err)
	}
	return readTree(data)
}

func readTree(data []byte) (tree, error) {
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.UseNumber()
	var found tree
	if err := decoder.Decode(&found); err != nil || found == nil {
		return nil, wrongConfig("a document is a JSON object")
	}
	return found, nil
}

// merged is a document with what another one says in place of it, at any depth; lists are replaced whole.
func merged(base, over tree) tree {
	found := tree{}
	for key, value := range base {
		found[key] = value
	}
	for key, value := range over {
		before, isTree := found[key].(tree)
		after, both := value.(tree)
		if isTree && both {
			found[key] = merged(before, after)
		} else {
			found[key] = value
		}
	}
	return found
}

// JobHandle is one job, by tenant, name and uid: another one of its name is not taken for it. It belongs to one goroutine.
type JobHandle struct {
	core     *core
	document *Job
}

// Document is all of the job, as it was when it was last asked for.
func (j *JobHandle) Document() *Job { return j.document }

func (j *JobHandle) metadata() Metadata {
	if j.document.Metadata == nil {
		return Metadata{}
	}
	return *j.document.Metadata
}

// Name is its name in its tenant.
func (j *JobHandle) Name() string { return j.metadata().Name }

// Tenant is its tenant's name.
func (j *JobHandle) Tenant() string { return j.metadata().Tenant }

// UID is what no other job ever has.
func (j *JobHandle) UID() string { return j.metadata().Uid }

// Phase is as it was last.
func (j *JobHandle) Phase() JobStatusPhase {
	if j.document.Status == nil || j.document.Status.Phase == "" {
		return JobStatusPhasePending
	}
	return j.document.Status.Phase
}

// Ended says whether it had ended when it was last asked for.
func (j *JobHandle) Ended() bool { return slices.Contains(ended, j.Phase()) }

// Why has the causes of its phase.
func (j *JobHandle) Why() string {
	if j.document.Status == nil {
		return ""
	}
	causes := make([]string, len(j.document.Status.Reasons))
	for i, one := range j.document.Status.Reasons {
		causes[i] = one.Code + ": " + one.Message
	}
	return strings.Join(causes, "; ")
}

func (j *JobHandle) String() string {
	if j.Tenant() == "" {
		return j.Name()
	}
	return j.Tenant() + "/" + j.Name()
}

func (j *JobHandle) path() map[string]string { return map[string]string{"name": j.Name()} }

// Refresh asks for it.
func (j *JobHandle) Refresh(ctx context.Context) (*Job, error) {
	found, err := call[Job](ctx, j.core, opGetJob, j.path(), &GetJobParams{Tenant: j.Tenant()}, nil)
	if err != nil {
		return nil, err
	}
	j.document = found
	return found, nil
}

func (j *JobHandle) deleted() error {
	message := fmt.Sprintf("job %s was deleted while it was waited for", j)
	return made("not-found", APIError{Message: message, Reason: "JOB_NOT_FOUND", Operation: opWatchJobs.name})
}

// WaitFor waits until the job has one of these phases, or has ended. A *NotFoundError says that it was deleted meanwhile. The context bounds
// the wait: when it is done, its error comes, and the job goes on.
func (j *JobHandle) WaitFor(ctx context.Context, phases ...JobStatusPhase) (*Job, error) {
	wanted := append(slices.Clone(phases), ended...)
	if slices.Contains(wanted, j.Phase()) {
		return j.document, nil
	}
	f, err := newFollower(j.core, opWatchJobs, nil, &WatchJobsParams{Tenant: j.Tenant(), Name: j.Name()})
	if err != nil {
		return nil, err
	}
	defer f.close()
	known := false
	for {
		one, err := f.next(ctx)
		if errors.Is(err, io.EOF) || (err == nil && one.kind == "SYNCED" && !known) {
			return nil, j.deleted()
		}
		if err != nil {
			return nil, err
		}
		gone := one.kind == "DELETE"
		// A DELETE without the last value names no uid: then none of this name is there any more.
		if one.kind == "SYNCED" || (j.UID() != "" && one.uid != j.UID() && !(gone && one.uid == "")) {
			continue
		}
		known = true
		if !gone || one.hasStatus {
			var seen JobEvent
			if err := json.Unmarshal(one.data, &seen); err != nil || seen.Job == nil {
				return nil, made("internal", APIError{Message: "an event is not as the API says it", Reason: "BROKEN_ANSWER", Err: err})
			}
			j.document = seen.Job
			if slices.Contains(wanted, j.Phase()) {
				return j.document, nil
			}
		}
		if gone {
			return nil, j.deleted()
		}
	}
}

// Wait waits for the end of the job. A *JobFailedError says that it has not completed; the document is given with it.
func (j *JobHandle) Wait(ctx context.Context) (*Job, error) {
	document, err := j.WaitFor(ctx)
	if err != nil || j.Phase() == JobStatusPhaseCompleted {
		return document, err
	}
	message := fmt.Sprintf("job %s ended as %s", j, j.Phase())
	if why := j.Why(); why != "" {
		message += ": " + why
	}
	return document, &JobFailedError{Message: message, Job: document, Phase: j.Phase()}
}

// Cancel ends it: SIGTERM, then SIGKILL after the grace period ("30s"; empty: the job's own). A job that has ended stays as it is.
func (j *JobHandle) Cancel(ctx context.Context, gracePeriod string) (*Job, error) {
	params := &CancelJobParams{Tenant: j.Tenant(), GracePeriod: gracePeriod}
	found, err := call[Job](ctx, j.core, opCancelJob, j.path(), params, nil)
	if err != nil {
		return nil, err
	}
	j.document = found
	return found, nil
}

// Delete removes it; it must have ended.
func (j *JobHandle) Delete(ctx context.Context) error {
	_, err := call[DeleteJobResponse](ctx, j.core, opDeleteJob, j.path(), &DeleteJobParams{Tenant: j.Tenant()}, nil)
	return err
}
