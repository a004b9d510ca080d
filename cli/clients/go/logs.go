package railyard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// recognised: a rank that wrote more may have lost its oldest output, so that what is sent again cannot be recognised.
const recognised = 4 << 20

// LogOptions say which of a job's output is meant.
type LogOptions struct {
	// Ranks: all if left out.
	Ranks []int64
	// TailLines: only so many lines of each rank.
	TailLines int64
	// Attempt: the present one if left out. Not of FollowLogs.
	Attempt int64
	// Stream: STDOUT or STDERR alone. Not of FollowLogs.
	Stream LogChunkStream
}

// LogOutput is some of what a rank wrote: STDOUT or STDERR, or a NOTE of Railyard's own.
type LogOutput struct {
	Rank   int64
	Stream LogChunkStream
	Data   []byte
}

// Logs gives what ranks wrote and is kept, rank after rank; lines of several ranks begin with "[RANK] ".
func (j *JobHandle) Logs(ctx context.Context, o LogOptions) (string, error) {
	params := &StreamLogsParams{Tenant: j.Tenant(), Ranks: o.Ranks, TailLines: o.TailLines, Attempt: o.Attempt}
	rows := records[LogChunk](j.core, opStreamLogs, j.path(), params)
	defer rows.Close()
	texts, size := map[int64]*strings.Builder{}, 0
	for {
		chunk, err := rows.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
		if size += len(chunk.Data); size > maxLogs {
			message := fmt.Sprintf("the logs of job %s have more than %d bytes", j, maxLogs)
			return "", made("too-large", APIError{Message: message, Reason: "LOGS_TOO_LARGE", Operation: opStreamLogs.name})
		}
		if chunk.Stream == LogChunkStreamNote || (o.Stream != "" && chunk.Stream != o.Stream) {
			continue
		}
		if texts[chunk.Rank] == nil {
			texts[chunk.Rank] = &strings.Builder{}
		}
		texts[chunk.Rank].Write(chunk.Data)
	}
	return j.joined(texts, len(o.Ranks) == 1), nil
}

func (j *JobHandle) joined(texts map[int64]*strings.Builder, one bool) string {
	all := 0
	if j.document.Status != nil && j.document.Status.Placement != nil {
		all = len(j.document.Status.Placement.Ranks)
	}
	ranks := make([]int64, 0, len(texts))
	for rank := range texts {
		ranks = append(ranks, rank)
	}
	slices.Sort(ranks)
	var found strings.Builder
	for _, rank := range ranks {
		text := texts[rank].String()
		if one || (len(texts) == 1 && all <= 1) {
			found.WriteString(text)
			continue
		}
		if text == "" {
			continue
		}
		for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			fmt.Fprintf(&found, "[%d] %s\n", rank, line)
		}
	}
	return found.String()
}

// LogFollower gives what ranks write, as it comes, until the job has ended; it is resumed when the connection is lost.
//
// A stream begins with all that is kept of the job's present attempt, and goes on with later ones without saying where they begin. So what
// was given is counted from the beginning of one attempt on, and a stream that is lost is resumed with that attempt: if others have followed
// it meanwhile, it is read to its end, then the next. Where it is in doubt what was given, it is given again.
type LogFollower struct {
	job     *JobHandle
	options LogOptions
	resumer resumer
	lines   *lines
	closed  bool
	// attempt: from the beginning of which one on given counts.
	attempt int64
	begun   bool
	// past: the present stream is of an attempt that others have followed; noted: it has said something of Railyard's own.
	past, noted bool
	// given and skip: bytes that were given, and bytes of the present stream that are still to be left out.
	given, skip map[source]int
}

type source struct {
	rank   int64
	stream LogChunkStream
}

// FollowLogs begins to follow. It belongs to one goroutine, as the handle does while it is followed.
func (j *JobHandle) FollowLogs(o LogOptions) *LogFollower {
	own := &JobHandle{core: j.core, document: j.document}
	return &LogFollower{job: own, options: o, resumer: resumer{core: j.core}, given: map[source]int{}, skip: map[source]int{}}
}

// Close ends it.
func (f *LogFollower) Close() {
	f.closed = true
	f.drop()
}

func (f *LogFollower) drop() {
	if f.lines != nil {
		f.lines.close()
		f.lines = nil
	}
}

// recognised says whether what was given can be told from what is new.
func (f *LogFollower) recognised() bool {
	if f.options.TailLines != 0 {
		return false
	}
	for _, size := range f.given {
		if size > recognised {
			return false
		}
	}
	return true
}

func attemptOf(document *Job) int64 {
	if document.Status == nil {
		return 0
	}
	return document.Status.Attempt
}

// choose decides of which attempt the next stream is: that which was lost, or the first behind it that is known.
func (f *LogFollower) choose(document *Job) {
	present := attemptOf(document)
	before := f.attempt
	if !f.begun {
		before = present
	}
	f.attempt, f.begun = present, true
	if f.options.TailLines == 0 && document.Status != nil {
		for _, one := range document.Status.PastAttempts {
			if before <= one.Attempt && one.Attempt < f.attempt {
				f.attempt = one.Attempt
			}
		}
	}
	if f.attempt != before || (f.attempt != present && !f.recognised()) {
		clear(f.given)
	}
	f.past, f.noted = f.attempt != present, false
}

// begin opens the next stream; none if an attempt began meanwhile, so that it is unknown with which one the stream begins.
func (f *LogFollower) begin(ctx context.Context) error {
	document, err := f.job.Refresh(ctx)
	if err != nil {
		return err
	}
	f.choose(document)
	params := &StreamLogsParams{Tenant: f.job.Tenant(), Ranks: f.options.Ranks, TailLines: f.options.TailLines, Follow: !f.past}
	if f.past {
		params.Attempt = f.attempt
	}
	r, err := f.job.core.request(opStreamLogs, f.job.path(), params, nil)
	if err != nil {
		return err
	}
	begun, err := open(ctx, f.job.core, r)
	if err != nil {
		return err
	}
	if len(f.given) > 0 && !f.past {
		document, err := f.job.Refresh(ctx)
		if err != nil || attemptOf(document) != f.attempt {
			begun.close()
			return err
		}
	}
	clear(f.skip)
	if f.recognised() {
		maps.Copy(f.skip, f.given)
	}
	f.lines = begun
	f.resumer.opened()
	return nil
}

// finish: a past attempt was read to its end, so that what is still to be left out was given of the next one.
func (f *LogFollower) finish() {
	clear(f.given)
	if !f.noted {
		for key, size := range f.skip {
			if size > 0 {
				f.given[key] = size
			}
		}
	}
	f.attempt++
}

// Next gives the next output that is new; io.EOF at the end.
func (f *LogFollower) Next(ctx context.Context) (*LogOutput, error) {
	for !f.closed {
		data, over, err := f.step(ctx)
		switch {
		case errors.Is(err, errSilent):
			// Ranks that write nothing are no fault.
		case ctx.Err() != nil:
			f.drop()
			return nil, ctx.Err()
		case err != nil:
			f.drop()
			if err := f.resumer.lost(ctx, err); err != nil {
				return nil, err
			}
		case data != nil:
			f.resumer.arrived(true)
			found, err := f.fresh(data)
			if found != nil || err != nil {
				return found, err
			}
		case f.lines == nil:
			// Asked for again at once.
		default:
			f.drop()
			if over {
				f.closed = true
			} else if f.past {
				f.finish()
			} else if err := f.resumer.lost(ctx, nil); err != nil {
				return nil, err
			}
		}
	}
	return nil, io.EOF
}

// step gives the next line, or whether the job has ended where the stream has.
func (f *LogFollower) step(ctx context.Context) ([]byte, bool, error) {
	if f.lines == nil {
		if err := f.begin(ctx); err != nil || f.lines == nil {
			return nil, false, err
		}
	}
	data, err := f.lines.next(ctx, limitsNow().silent)
	if err != nil || data != nil || f.past {
		return data, false, err
	}
	if _, err := f.job.Refresh(ctx); err != nil {
		return nil, false, err
	}
	return nil, f.job.Ended(), nil
}

// fresh gives the part of a chunk that was not given yet.
func (f *LogFollower) fresh(data []byte) (*LogOutput, error) {
	var chunk LogChunk
	if err := json.Unmarshal(data, &chunk); err != nil {
		f.Close()
		return nil, made("internal", APIError{Message: "a chunk is not as the API says it", Reason: "BROKEN_ANSWER", Operation: opStreamLogs.name, Err: err})
	}
	key := source{chunk.Rank, chunk.Stream}
	f.noted = f.noted || chunk.Stream == LogChunkStreamNote
	known := min(f.skip[key], len(chunk.Data))
	f.skip[key] -= known
	f.given[key] += len(chunk.Data) - known
	if known == len(chunk.Data) {
		return nil, nil
	}
	return &LogOutput{Rank: chunk.Rank, Stream: chunk.Stream, Data: chunk.Data[known:]}, nil
}
