//! etcd's messages and the server's side of its calls, as etcd-client has them: by its feature for servers in tests.

pub use etcd_client::{AlarmAction, AlarmType, CompareOp, EventType};

pub use etcd_client::proto::{
    PbAlarmMember as AlarmMember, PbAlarmRequest as AlarmRequest, PbAlarmResponse as AlarmResponse,
    PbCompactionRequest as CompactionRequest, PbCompactionResponse as CompactionResponse,
    PbCompare as Compare, PbDefragmentRequest as DefragmentRequest,
    PbDefragmentResponse as DefragmentResponse, PbDeleteRequest as DeleteRangeRequest,
    PbDeleteResponse as DeleteRangeResponse, PbDowngradeRequest as DowngradeRequest,
    PbDowngradeResponse as DowngradeResponse, PbEvent as Event, PbHashKvRequest as HashKvRequest,
    PbHashKvResponse as HashKvResponse, PbHashRequest as HashRequest, PbHashResponse as HashResponse,
    PbKeyValue as KeyValue, PbKvServer as KvServer, PbKvService as Kv,
    PbLeaseGrantRequest as LeaseGrantRequest, PbLeaseGrantResponse as LeaseGrantResponse,
    PbLeaseKeepAliveRequest as LeaseKeepAliveRequest, PbLeaseKeepAliveResponse as LeaseKeepAliveResponse,
    PbLeaseLeasesRequest as LeaseLeasesRequest, PbLeaseLeasesResponse as LeaseLeasesResponse,
    PbLeaseRevokeRequest as LeaseRevokeRequest, PbLeaseRevokeResponse as LeaseRevokeResponse,
    PbLeaseServer as LeaseServer, PbLeaseService as Lease,
    PbLeaseTimeToLiveRequest as LeaseTimeToLiveRequest, PbLeaseTimeToLiveResponse as LeaseTimeToLiveResponse,
    PbMaintenanceServer as MaintenanceServer, PbMaintenanceService as Maintenance,
    PbMoveLeaderRequest as MoveLeaderRequest, PbMoveLeaderResponse as MoveLeaderResponse,
    PbPutRequest as PutRequest, PbPutResponse as PutResponse, PbRangeRequest as RangeRequest,
    PbRangeResponse as RangeResponse, PbRangeStreamResponse as RangeStreamResponse,
    PbResponseHeader as ResponseHeader, PbResponseOp as ResponseOp, PbSnapshotRequest as SnapshotRequest,
    PbSnapshotResponse as SnapshotResponse, PbStatusRequest as StatusRequest,
    PbStatusResponse as StatusResponse, PbTargetUnion as TargetUnion, PbTxnOpRequest as Request,
    PbTxnOpResponse as Response, PbTxnRequest as TxnRequest, PbTxnRequestOp as RequestOp,
    PbTxnResponse as TxnResponse, PbWatchRequest as WatchRequest, PbWatchRequestUnion as WatchAsk,
    PbWatchResponse as WatchResponse, PbWatchServer as WatchServer, PbWatchService as Watch,
};
