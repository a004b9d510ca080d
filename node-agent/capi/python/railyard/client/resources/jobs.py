"""Calls of `Client.jobs`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from .._core import Operation
from .._resource import Records, Resource, Watch
from ..types.common import (
    Int64,
)
from ..types.jobs import (
    DeleteJobResponse,
    ExplainJobResponse,
    Job,
    JobEvent,
    JobStatusPhase,
    JobUsage,
    ListJobUsageResponse,
    ListJobsResponse,
    LogChunk,
    PlanJobResponse,
)

CANCEL_JOB = Operation("cancelJob", "POST", "/v1/jobs/{name}:cancel", True, tenant="tenant", whole=True)
CREATE_JOB = Operation("createJob", "POST", "/v1/jobs", False, tenant="onBehalfOf", request_id=True)
DELETE_JOB = Operation("deleteJob", "DELETE", "/v1/jobs/{name}", False, tenant="tenant")
EXPLAIN_JOB = Operation("explainJob", "GET", "/v1/jobs/{name}:explain", True, tenant="tenant")
GET_JOB = Operation("getJob", "GET", "/v1/jobs/{name}", True, tenant="tenant")
HOLD_JOB = Operation("holdJob", "POST", "/v1/jobs/{name}:hold", False, tenant="tenant", request_id=True, whole=True)
LIST_JOB_USAGE = Operation("listJobUsage", "GET", "/v1/jobs:usage", True, tenant="tenant")
LIST_JOBS = Operation("listJobs", "GET", "/v1/jobs", True, tenant="tenant")
PLAN_JOB = Operation("planJob", "POST", "/v1/jobs:plan", True, tenant="onBehalfOf")
RELEASE_JOB = Operation("releaseJob", "POST", "/v1/jobs/{name}:release", False, tenant="tenant", request_id=True, whole=True)
REQUEUE_JOB = Operation("requeueJob", "POST", "/v1/jobs/{name}:requeue", False, tenant="tenant", request_id=True, whole=True)
RESUME_JOB = Operation("resumeJob", "POST", "/v1/jobs/{name}:resume", False, tenant="tenant", request_id=True, whole=True)
STREAM_LOGS = Operation("streamLogs", "GET", "/v1/jobs/{name}/logs", True, tenant="tenant")
SUSPEND_JOB = Operation("suspendJob", "POST", "/v1/jobs/{name}:suspend", False, tenant="tenant", request_id=True, whole=True)
UPDATE_JOB = Operation("updateJob", "POST", "/v1/jobs/{name}:update", False, tenant="tenant", request_id=True, whole=True)
WATCH_JOBS = Operation("watchJobs", "GET", "/v1/jobs:watch", True, tenant="tenant")


class JobsService(Resource):
    """`Client.jobs`."""

    def cancel(
        self,
        name: str,
        *,
        tenant: str | None = None,
        grace_period: str | None = None,
        elements: str | None = None,
        timeout: float | None = None,
    ) -> Job:
        """The call cancelJob of the API.

        `grace_period`: Overrides the job's grace period.
        `elements`: If `name` is an array: only these elements, for example "3,7-9"; empty means all.
        """
        answer: Job = self._call(
            CANCEL_JOB,
            {"name": name},
            {"tenant": tenant, "gracePeriod": grace_period, "elements": elements},
            None,
            timeout,
        )
        return answer

    def create(
        self,
        job: Job,
        *,
        request_id: str | None = None,
        on_behalf_of: str | None = None,
        hold: bool | None = None,
        timeout: float | None = None,
    ) -> Job:
        """Repeated with the same request id, it gives the same job again.

        `request_id`: Made by the client, one per submit: the same id and body give the same job again; another body is refused.
        `on_behalf_of`: Administrators may act for a tenant; everybody else's tenant is that of their certificate or token.
        `hold`: It is held by its submitter from the beginning, as by HoldJob: it does not start until it is released.
        """
        answer: Job = self._call(CREATE_JOB, {}, {"requestId": request_id, "onBehalfOf": on_behalf_of, "hold": hold}, job, timeout)
        return answer

    def delete(
        self,
        name: str,
        *,
        tenant: str | None = None,
        elements: str | None = None,
        timeout: float | None = None,
    ) -> DeleteJobResponse:
        """Removes a job that has ended.

        `elements`: If `name` is an array: only these elements; empty means all.
        """
        answer: DeleteJobResponse = self._call(DELETE_JOB, {"name": name}, {"tenant": tenant, "elements": elements}, None, timeout)
        return answer

    def explain(self, name: str, *, tenant: str | None = None, at: str | None = None, timeout: float | None = None) -> ExplainJobResponse:
        """Why the job is in its phase: the causes that the scheduler gave.

        `at`: What was so at this time, from the decision log; absent means now.
        """
        answer: ExplainJobResponse = self._call(EXPLAIN_JOB, {"name": name}, {"tenant": tenant, "at": at}, None, timeout)
        return answer

    def get(self, name: str, *, tenant: str | None = None, timeout: float | None = None) -> Job:
        """The call getJob of the API.

        `tenant`: For administrators; others see their own tenant's.
        """
        answer: Job = self._call(GET_JOB, {"name": name}, {"tenant": tenant}, None, timeout)
        return answer

    def hold(
        self,
        name: str,
        *,
        tenant: str | None = None,
        elements: str | None = None,
        reason: str | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Job:
        """Keeps a job, an array's elements or some of them from starting; what runs goes on, and is held if it is queued again. Repeated, it
        changes nothing.

        `elements`: If `name` is an array: only these elements, for example "3,7-9"; empty means all that have not ended.
        `reason`: For people; at most 1024 bytes.
        `request_id`: Made by the client, one per change: a late copy of the same request changes nothing.
        """
        answer: Job = self._call(
            HOLD_JOB,
            {"name": name},
            {"tenant": tenant, "elements": elements, "reason": reason, "requestId": request_id},
            None,
            timeout,
        )
        return answer

    def list_usage(
        self,
        *,
        tenant: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> ListJobUsageResponse:
        """What running jobs use now, as the agents of their servers told it last.

        `tenant`: For administrators: one tenant's jobs; empty means all.
        `page_size`: At most this many; 0 means the server's limit.
        """
        answer: ListJobUsageResponse = self._call(
            LIST_JOB_USAGE,
            {},
            {"tenant": tenant, "pageSize": page_size, "pageToken": page_token},
            None,
            timeout,
        )
        return answer

    def list_usage_all(self, *, tenant: str | None = None, timeout: float | None = None) -> Sequence[JobUsage]:
        """All rows of `list_usage`, page by page."""
        rows: Sequence[JobUsage] = self._pages(LIST_JOB_USAGE, {}, {"tenant": tenant}, "jobs", timeout)
        return rows

    def list(
        self,
        *,
        tenant: str | None = None,
        phases: Sequence[JobStatusPhase] | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        array: str | None = None,
        queue: str | None = None,
        timeout: float | None = None,
    ) -> ListJobsResponse:
        """The call listJobs of the API.

        `tenant`: For administrators: one tenant's jobs; empty means all.
        `phases`: Only these phases; empty means all.
        `array`: Only elements of this array.
        `queue`: Only jobs of this queue.
        """
        answer: ListJobsResponse = self._call(
            LIST_JOBS,
            {},
            {"tenant": tenant, "phases": phases, "pageSize": page_size, "pageToken": page_token, "array": array, "queue": queue},
            None,
            timeout,
        )
        return answer

    def list_all(
        self,
        *,
        tenant: str | None = None,
        phases: Sequence[JobStatusPhase] | None = None,
        array: str | None = None,
        queue: str | None = None,
        timeout: float | None = None,
    ) -> Sequence[Job]:
        """All rows of `list`, page by page."""
        rows: Sequence[Job] = self._pages(
            LIST_JOBS,
            {},
            {"tenant": tenant, "phases": phases, "array": array, "queue": queue},
            "jobs",
            timeout,
        )
        return rows

    def plan(self, job: Job, *, on_behalf_of: str | None = None, timeout: float | None = None) -> PlanJobResponse:
        """What would happen if the job were submitted now; writes nothing."""
        answer: PlanJobResponse = self._call(PLAN_JOB, {}, {"onBehalfOf": on_behalf_of}, job, timeout)
        return answer

    def release(
        self,
        name: str,
        *,
        tenant: str | None = None,
        elements: str | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Job:
        """Takes back what holds or suspends a job, as far as the caller may: a user does not release what an administrator holds.

        `elements`: If `name` is an array: only these elements; empty means all.
        """
        answer: Job = self._call(
            RELEASE_JOB,
            {"name": name},
            {"tenant": tenant, "elements": elements, "requestId": request_id},
            None,
            timeout,
        )
        return answer

    def requeue(
        self,
        name: str,
        *,
        tenant: str | None = None,
        elements: str | None = None,
        reason: str | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Job:
        """Stops a job, an array's elements or some of them, as a preemption would, and queues them again at once. It counts as no failure and
        no restart. One that waits stays as it is.

        `elements`: If `name` is an array: only these elements; empty means all that have not ended.
        `reason`: For people; at most 1024 bytes.
        `request_id`: Made by the client, one per change: without one a repeated request stops the next attempt too.
        """
        answer: Job = self._call(
            REQUEUE_JOB,
            {"name": name},
            {"tenant": tenant, "elements": elements, "reason": reason, "requestId": request_id},
            None,
            timeout,
        )
        return answer

    def resume(
        self,
        name: str,
        *,
        tenant: str | None = None,
        elements: str | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Job:
        """Takes back what suspends or holds a job, as ReleaseJob does: it is queued again, and starts as a new attempt.

        `elements`: If `name` is an array: only these elements; empty means all.
        """
        answer: Job = self._call(
            RESUME_JOB,
            {"name": name},
            {"tenant": tenant, "elements": elements, "requestId": request_id},
            None,
            timeout,
        )
        return answer

    def stream_logs(
        self,
        name: str,
        *,
        tenant: str | None = None,
        ranks: Sequence[int] | None = None,
        follow: bool | None = None,
        tail_lines: int | None = None,
        attempt: int | None = None,
        since: str | None = None,
        timestamps: bool | None = None,
    ) -> Records[LogChunk]:
        """The call streamLogs of the API.

        `ranks`: Only these ranks; empty means all.
        `follow`: Go on until the job ends.
        `tail_lines`: Only the last so many lines of each rank; 0 means all that is kept.
        `attempt`: Of this attempt only; 0 means the present one, and where the job is followed all that come after it.
        `since`: Only what was written then or later. What an earlier release of the agent has kept has no time, and is told whole.
        `timestamps`: Chunks tell when their bytes were written, and hold no bytes of another time.
        """
        return self._records(
            STREAM_LOGS,
            {"name": name},
            {
                "tenant": tenant,
                "ranks": ranks,
                "follow": follow,
                "tailLines": tail_lines,
                "attempt": attempt,
                "since": since,
                "timestamps": timestamps,
            },
        )

    def suspend(
        self,
        name: str,
        *,
        tenant: str | None = None,
        elements: str | None = None,
        reason: str | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Job:
        """Stops a job, an array's elements or some of them, as a preemption would (the same signal and grace period), and holds them: what
        they
        had is free for others, they keep their age in the queue, and wait until they are resumed. It counts as no failure and no restart.
        One
        that waits is held. Repeated, it changes nothing.

        `elements`: If `name` is an array: only these elements, for example "3,7-9"; empty means all that have not ended.
        `reason`: For people; at most 1024 bytes.
        `request_id`: Made by the client, one per change: a late copy of the same request changes nothing.
        """
        answer: Job = self._call(
            SUSPEND_JOB,
            {"name": name},
            {"tenant": tenant, "elements": elements, "reason": reason, "requestId": request_id},
            None,
            timeout,
        )
        return answer

    def update(
        self,
        name: str,
        *,
        tenant: str | None = None,
        elements: str | None = None,
        if_version: Int64 | None = None,
        request_id: str | None = None,
        priority: int | None = None,
        time_limit: str | None = None,
        no_time_limit: bool | None = None,
        queue: str | None = None,
        nodes: int | None = None,
        min_nodes: int | None = None,
        set_labels: dict[str, str] | None = None,
        remove_labels: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> Job:
        """Changes a job: of one that waits all that the request can name, of one that runs its time limit, which users may shorten and
        administrators extend, and of any its labels.

        `elements`: If `name` is an array: only these elements; empty means all that have not ended.
        `if_version`: Refused unless this is the job's resource version; 0: whatever it is. Not for several elements.
        `priority`: Of a job that waits.
        `no_time_limit`: No limit any more; not with `time_limit`.
        `queue`: Of a job that waits: one of the tenant's queues; empty: the tenant itself.
        `nodes`: Of a job that waits: nodes that it wants. Without `min_nodes` it is exactly so many.
        `min_nodes`: Of a job that waits: it starts with so many at least.
        `set_labels`: Labels that are set, also of a job that runs or has ended. The job keeps those that it has.
        `remove_labels`: Labels that are taken away, in the same jobs; one that is not there is no error.
        """
        answer: Job = self._call(
            UPDATE_JOB,
            {"name": name},
            {
                "tenant": tenant,
                "elements": elements,
                "ifVersion": if_version,
                "requestId": request_id,
                "priority": priority,
                "timeLimit": time_limit,
                "noTimeLimit": no_time_limit,
                "queue": queue,
                "nodes": nodes,
                "minNodes": min_nodes,
                "setLabels": set_labels,
                "removeLabels": remove_labels,
            },
            None,
            timeout,
        )
        return answer

    def watch(
        self,
        *,
        tenant: str | None = None,
        name: str | None = None,
        after_revision: Int64 | None = None,
        array: str | None = None,
        timeout: float | None = None,
    ) -> Watch[JobEvent]:
        """The call watchJobs of the API.

        `name`: One job; empty means all.
        `array`: Only elements of this array; not together with `name`.
        """
        return self._watch(WATCH_JOBS, {}, {"tenant": tenant, "name": name, "afterRevision": after_revision, "array": array}, timeout)
