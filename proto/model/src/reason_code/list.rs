//! All codes that this release gives, in sections, each with what it means and what the reader can do.

use super::{OtherCode, reason_codes};

reason_codes! {
    "The job can never start on this cluster as it is" {
        /// No node has joined the cluster yet; start rail-node-agent on a server and let it join.
        NoNodes,
        /// The job asks for more nodes than the cluster has; ask for fewer, or add servers.
        NodeCount,
        /// The job asks for more rails than the fabric has; lower rails.required.
        RailCount,
        /// There are no rails where some are needed, for a gang of several nodes or in a document with leaves; list the rails.
        NoRails,
        /// Too few nodes have a cabled NIC on each rail that the job requires; require fewer rails, or cable the missing NICs.
        RailShape,
        /// The rail works on no node, or gets no answer from its partners; mend it, or let jobs start on the others with allowPartial.
        RailDead,
        /// Sizes of groups do not divide the gang and one another; change gang.nodes or the sizes of the groups.
        GroupSize,
        /// No leaf or pod is large enough for the gang; allow a wider one in placement.within.
        PlaceShape,
        /// The groups of the gang cannot all lie together; let them be split with required: false.
        GroupShape,
        /// There are not nodes enough for the gang and its spares; ask for fewer spares.
        SpareShape,
        /// Without the nodes that the job excludes, or among those that it names, there are too few; name others.
        ExcludedNodes,
        /// No set of nodes fits the gang as a whole even when all are idle; ask for fewer nodes or rails, or a wider place.
        GangShape,
        /// Too few nodes have what the job asks of each, even when idle; ask for less per node.
        NodeShape,
        /// Too few nodes have so many GPUs; ask for fewer GPUs per node and more nodes.
        GpuShape,
        /// Too few nodes have GPUs of the models that will do; name another model, or none.
        GpuModelShape,
        /// Too few nodes have so many CPUs; ask for fewer CPUs per node.
        CpuShape,
        /// Too few nodes have so much memory; ask for less memory per node.
        MemoryShape,
        /// Too few nodes have the labels that the job selects by; change the selector, or label nodes.
        LabelShape,
        /// The job asks for more GPUs than its tenant, queue or user may ever hold; ask for fewer, or have the limit raised.
        QuotaTooSmall,
        /// There is no such tenant; look at the name, or let an administrator create it.
        TenantUnknown,
        /// The queue of the job, or one that it is part of, does not exist; name another or create it.
        QueueUnknown,
        /// There is no such reservation; look at the name that the job gives.
        ReservationUnknown,
        /// The reservation of the job is not for its tenant or is over; name another, or none.
        ReservationClosed,
        /// What the job is to wait for can never happen any more; cancel it, or submit it without that dependency.
        DependencyNeverMet,
    }
    "The job waits for nodes" {
        /// Too few nodes are free together; wait until jobs end, or ask for fewer nodes.
        GangCapacity,
        /// Nodes have too few free GPUs; wait until jobs there end, or ask for fewer GPUs per node.
        GpuCapacity,
        /// Nodes have too few free CPUs; wait until jobs there end, or ask for fewer CPUs per node.
        CpuCapacity,
        /// Nodes have too little free memory; wait until jobs there end, or ask for less per node.
        MemoryCapacity,
        /// Agents of these nodes say nothing of CPUs, so the job cannot go there; upgrade rail-node-agent.
        CpusUnknown,
        /// Agents of these nodes say nothing of memory, so the job cannot go there; upgrade rail-node-agent.
        MemoryUnknown,
        /// Nodes are held by a job that shares with nobody; wait until it ends.
        NodeExclusive,
        /// Nodes are held in part and the job shares with nobody; wait, or submit it without exclusive.
        NodeShared,
        /// Nodes run another tenant's job and cannot keep two tenants apart; give their agents a user for each attempt.
        NodeNotShared,
        /// Nodes lack an isolation feature that must be there; turn it on, the message says how.
        IsolationMissing,
        /// Nodes have no cabled NIC on a required rail; cable it, or require fewer rails.
        RailMissing,
        /// Nodes have a NIC down on a required rail; look at the cable and at the port of the switch.
        RailDown,
        /// The NIC of a required rail is held by another job; wait until that ends.
        RailBusy,
        /// The rail is drained, and jobs do not use it there; see `railctl rail ls` and undrain it when the work is done.
        RailDrained,
        /// An administrator marked these nodes unschedulable; uncordon them to use them again.
        NodeUnschedulable,
        /// These nodes are not heard from; look at rail-node-agent and at the network of the server.
        NodeNotReady,
        /// Agents of these nodes are not connected at the moment; they are used again when they are back.
        NodeAway,
        /// These nodes still end processes of an older attempt; they are free when those have ended.
        NodeDraining,
        /// Nodes lack the labels that the job selects by; change the selector, or label nodes.
        LabelMismatch,
        /// Nodes have GPUs of other models than will do; name another model, or wait for the others.
        GpuModelMismatch,
        /// Nobody knows the model of the GPUs of these nodes; install the library of the GPU's vendor there.
        GpuModelUnknown,
        /// Nodes have a taint that the job does not tolerate; tolerate it, or take it away.
        NodeTaint,
        /// The job excludes these nodes itself; take them off its list to use them.
        NodeExcluded,
        /// The gang must stay on the same leaves and no such set has room; wait, or allow a pod.
        LeafCapacity,
        /// The gang must stay in one pod and none has room; wait, or allow the whole fabric.
        PodCapacity,
        /// Groups of the gang must stay together and there is no room for that; wait, or let them be split.
        GroupCapacity,
        /// Too few nodes share rails that join them; wait, mend the rails, or require fewer.
        RailAlignment,
        /// The spares of the job need nodes too; wait, or ask for fewer spares.
        SpareCapacity,
        /// Nodes are kept for a job that is ahead in the queue; wait until that has started.
        ReservedAhead,
        /// Nodes are kept for a reservation or for others; wait until it is over, or use that reservation.
        Reserved,
        /// Enough is free but not near enough together or not on the same rails; wait, or allow a wider place.
        Scattered,
        /// The checker refused a placement, so the job waits rather than run wrongly; report it with the message.
        PlacementRefused,
    }
    "The job waits for its turn" {
        /// Jobs are ahead of it in the queue; it is considered when its turn comes.
        Queued,
        /// There is room, but jobs ahead of it are planned to start there; wait, or shorten its time limit.
        PlannedAhead,
        /// The turn of the job comes with the next scheduling pass; nothing is to be done.
        AboutToStart,
        /// The tenant, queue or user holds as many GPUs as it may; wait until some are free, or have the limit raised.
        QuotaExceeded,
        /// A job ahead of it waits for the same limit; it goes on when that job has started.
        QuotaAhead,
        /// As many jobs of the tenant run as may; wait until one ends, or have the limit raised.
        TenantJobs,
        /// As many elements of the array run as may at a time; wait until one ends, or raise the array's limit.
        ArrayLimit,
        /// As many elements of the array are under way as may be, and others come before this one; wait for them.
        ArrayTurn,
        /// As many jobs of the user run in the service class as may; wait, or use another service class.
        ServiceClassJobs,
        /// The user holds as many GPUs in the service class as it may; wait, or use another service class.
        ServiceClassGpus,
        /// Long jobs of few GPUs hold as many together as they may; wait, or give the job a shorter time limit.
        LongJobs,
        /// Too few of the license are free; wait until jobs give theirs back, or ask for fewer.
        License,
        /// The job would run into a reservation; give it a shorter time limit, or wait until that is over.
        ReservationInTheWay,
        /// The reservation of the job has not begun yet; it can start when that does.
        ReservationNotBegun,
        /// Other jobs are being stopped to make room for it; it starts when they have ended.
        PreemptionUnderWay,
        /// The job is held, and its other reasons say why; mend those, or let whoever holds it release it.
        Held,
        /// The job is not to start before a time; wait for it, or submit it with an earlier one.
        NotBefore,
        /// The job is not to start before its begin time; wait for it, or submit it without one.
        BeginTime,
        /// The job waits for another job; it goes on when that has got so far.
        Dependency,
        /// The job was queued again and waits a moment before the next try; nothing is to be done.
        RequeueBackoff,
        /// A user of the tenant holds the job; `railctl release job` lets it go on.
        HeldByUser,
        /// An administrator of the tenant holds the job; ask them to release it.
        HeldByTenantAdministrator,
        /// An administrator of the cluster holds the job; ask them to release it.
        HeldByAdministrator,
        /// A secret or config that the job names is missing; apply it, and the job goes on by itself.
        HeldForEnvironment,
        /// Somebody suspended the job; `railctl resume job` lets it go on.
        Suspended,
        /// The job fails if it has not started by then; raise its priority, or allow a later start.
        LatestStart,
        /// The job has left the queue since this was read; ask again for what became of it.
        LeftQueue,
    }
    "Why the job runs where it does" {
        /// The place chosen is the best one that was free; nothing is to be done.
        BestFit,
        /// No gang without drained rails could be had, so it uses nodes with some; undrain them for full speed.
        DrainedRails,
        /// Nodes of the gang were replaced, or it goes on with fewer rails; see what failed in the attempt before.
        Repaired,
        /// Rails of a node are cabled to each other's leaves and this job names them as they are; swap the cables.
        RailsRemapped,
        /// The rails were measured before the ranks started and nothing is wrong; nothing is to be done.
        Certified,
        /// What was measured on one rail before the ranks started; compare the figures in the message.
        RailCertified,
        /// Something was found once and not a second time, and counts for nothing; watch whether it comes again.
        NotConfirmed,
    }
    "The attempt has ended or is ending" {
        /// Somebody cancelled the job; submit it again if that was a mistake.
        CancelRequested,
        /// Somebody suspended the job, and it was stopped for that; resume it to let it go on.
        SuspendRequested,
        /// Somebody asked for the job to be queued again; it starts anew when there is room.
        RequeueRequested,
        /// Ranks of the job ended with an error; read their logs with `railctl logs`.
        RankFailed,
        /// A rank of the job ended, as the message says; read its log with `railctl logs`.
        RankExited,
        /// A rank could not be started at all; look at the command, the working directory and the user of the job.
        RankStartFailed,
        /// The attempt ended on a node before all its ranks had; read the logs of the job and of that node's agent.
        EndedEarly,
        /// Ranks used more memory than the job may; ask for more with gang.memoryPerNode.
        OutOfMemory,
        /// The job started more processes than it may; start fewer, or have the agent's limit raised.
        TooManyProcesses,
        /// The job ran for as long as its time limit allows; set a longer one and save checkpoints.
        TimeLimit,
        /// The job still ran at its deadline, or could not be done by then; give it more time or more nodes.
        DeadlinePassed,
        /// It was too late to start the job; allow a later start when you submit it again.
        StartTooLate,
        /// Engines were not ready on all nodes in time; look at the nodes that the message names.
        PrepareTimeout,
        /// Ranks did not start on all nodes in time; look at the nodes that the message names.
        StartTimeout,
        /// The job was stopped for another one and is queued again; raise its priority, or save checkpoints.
        Preempted,
        /// The job was stopped for one of higher priority; it is queued again, so save checkpoints.
        PreemptedForPriority,
        /// The nodes of the job were borrowed, and whose guarantee they are needs them; it is queued again.
        Reclaimed,
        /// The job was stopped to move to the nodes of its tenant's guarantee; it is queued again.
        MovedToGuarantee,
        /// The elastic job was stopped to go on with another size; it starts again by itself.
        Resized,
        /// The elastic job goes on with more nodes, since there is room; nothing is to be done.
        Grown,
        /// The elastic job goes on with fewer nodes, to make room for another; it grows when there is room.
        Shrunk,
        /// A secret or config changed while the job was being prepared; it is prepared anew.
        EnvironmentChanged,
        /// Rails of the gang did not pass their measurement; see the findings and mend them.
        NotCertified,
        /// A rail of a node was lost under the job; look at the NIC, the cable and the leaf.
        RailLost,
        /// A node of the gang was lost; look at the server and at rail-node-agent there.
        NodeLost,
        /// An administrator deleted a node of the gang; submit the job again if it is not queued again by itself.
        NodeDeleted,
        /// An administrator drains the node, so the job leaves it; it goes on elsewhere.
        NodeDrained,
        /// The agent came back and does not know the attempt any more; find out whether the server was set up anew.
        AttemptLost,
        /// The agent was asked to run what was never prepared there; look at its log and its state folder.
        AttemptUnknown,
        /// An engine lost its peer on another node; look at the node that most engines miss.
        PeerLost,
        /// An engine ended while the job needed it; look at the log of the engine on that node.
        EngineLost,
        /// An engine could not start, connect or measure; look at its log and at the rails of that node.
        EngineFailed,
        /// The supervisor of the job ended without recording how; look for what killed it on that node.
        SupervisorLost,
        /// The supervisor of the job could not be started; look at the agent's log on that node.
        SupervisorFailed,
        /// A node reported what only the controller may say, and its part counts as failed; look at its agent.
        NodeClaimRefused,
        /// The agent gave a cause that this controller does not know; read the message, and upgrade the controller.
        UnknownCause,
        /// The attempt failed and the job is queued again; the reasons before this one say why.
        Requeued,
        /// The job was restarted as often as it allows; mend the cause, or raise failure.maxRestarts.
        RestartsExhausted,
        /// A node has not confirmed the end of the attempt; bring it back, or delete it by force.
        AwaitingNode,
    }
    "Nodes of a gang cannot be replaced" {
        /// Too few nodes are free to replace those that failed; wait, or give the job spares.
        RepairCapacity,
        /// Free nodes stand in the wrong place to replace those that failed; allow a wider place, or wait.
        RepairPlace,
        /// Nodes of several components failed at once, and those of one at a time are replaced; let the job be queued again.
        RepairComponents,
        /// A replacement was found and its proof refused it; report it with the message.
        RepairUnproved,
        /// A node of the gang is not in the cluster any more, so nobody knows where it stood; let the job be queued again.
        NodeUnknown,
    }
    "What was measured before the ranks started" {
        /// A node reported nothing of what it was to measure; look at rail-node-agent there.
        NodeSilent,
        /// NICs are on other rails than they are taken to be; correct the cables or the map of rails.
        RailsMiswired,
        /// NICs are on each other's rails; swap the cables, or name the rails as they are cabled.
        RailsSwapped,
        /// A port has no GID for RoCE v2; look at the address and the RDMA driver of the NIC.
        GidMissing,
        /// A port has another GID than the others were given; look at the address of the NIC.
        GidMismatch,
        /// Packets of the ports' MTU do not pass; set the same MTU on NICs and switches.
        MtuTooSmall,
        /// The rail loses packets; look at the cable, the optics and the data class.
        RailLossy,
        /// The rail is far slower than the others; look at the link's speed, the PCIe link and the load.
        RailSlow,
        /// The DSCP of packets is changed on the path; look at what the switches trust and remark.
        DscpChanged,
        /// Packets are counted in another priority; look at the DSCP map of NIC and switch.
        WrongPriority,
        /// The gang has one node or no rail, so no pair can be measured; nothing is to be done.
        NothingToMeasure,
        /// Nothing was reported of some pairs and rails; look at the agents that were silent.
        NotMeasured,
        /// The GID was not read, because a rail has no RDMA or was not asked; nothing is proved of it.
        GidNotObserved,
        /// No counters of priorities were seen to move, so the priority is not proved; look at the driver's counters.
        PriorityNotObserved,
        /// The MTU of a port was not read, so it is not proved; upgrade rail-node-agent.
        PortMtuNotObserved,
        /// The DSCP as received was not seen by an end, so it is not proved; look at the kernel there.
        DscpNotObserved,
        /// No large packet was tried, so the MTU of the path is not proved; measure again.
        MtuNotObserved,
        /// The bandwidth of a path was not measured, so it is not proved; measure again.
        BandwidthNotObserved,
        /// A server was too busy to show the bandwidth of a path; measure again when it is idle.
        BandwidthHeldUp,
        /// Of two nodes with one rail there is nothing to compare the bandwidth with; compare it with the link's speed.
        BandwidthNotCompared,
    }
    "Nodes and the cluster" {
        /// The node has not been heard of; look at rail-node-agent and at the network of the server.
        NotHeard,
        /// The node fails jobs or reports what cannot be true; examine it, then `railctl node return`.
        Quarantined,
        /// The node reported hardware that another node has; look at its certificate and its agent.
        HardwareClaimed,
        /// The node reported a cause that only the controller may say; look at its agent and its certificate.
        ControllerCauseClaimed,
        /// The node reported a cause about something that is not its own; look at its agent and its certificate.
        ForeignScopeClaimed,
        /// The node reported the end of a rank that is not its own; look at its agent and its certificate.
        ForeignRankClaimed,
        /// The node reported a measurement with a node that is no peer of it; look at its agent.
        ForeignPeerClaimed,
        /// The node reported an engine on an address that is not its own; look at its agent and its addresses.
        ForeignEndpointClaimed,
        /// The node reported an epoch that this cluster never had; find out which cluster its agent joined.
        EpochClaimed,
        /// The rail of the node is out of use until something proves it well; wait for the probe.
        RailUnproved,
        /// Rails of servers are out of use until something proves them well; see `railctl describe node`.
        RailsUnproved,
        /// Rails, leaves or ports are drained; see `railctl rail ls` and undrain them when the work is done.
        RailsDrained,
        /// Things in the fabric do not fit the document; see `railctl topology show`.
        FabricFindings,
        /// The store of the controller takes no writes, so nothing can change; look at its disk or at etcd.
        StoreUnwritable,
    }
    "Schedules" {
        /// The run before has not ended, so this one was left out; let runs overlap, or make them shorter.
        StillRunning,
        /// No controller led at the time of the run, and later it was too late; allow a longer delay.
        TooLate,
        /// The job of the schedule was refused; read the message and correct the schedule's job.
        Refused,
        /// The credentials of the schedule's owner were taken back; whoever applies the schedule owns it.
        OwnerRevoked,
        /// The tenant was deleted and brought back, so the schedule is suspended; apply it to let it go on.
        Undeleted,
    }
    "Rollouts of class of service" {
        /// A NIC could not be brought to its profile; mend what the message says, then `railctl qos resume`.
        QosFailed,
        /// The agent is heard and does not do what is desired; look at its log, it may be of an older release.
        QosSilent,
        /// A NIC is not well with the profile on trial; look at its health before you resume.
        QosUnwell,
        /// Somebody paused the rollout; `railctl qos resume` lets it go on.
        QosPaused,
        /// Somebody cancelled the rollout; apply a profile to begin another.
        QosCancelled,
    }
    "Switches" {
        /// The fabric document has no switch of this name; add it there, or delete what is said of it.
        SwitchNotInFabric,
        /// Loopbacks or AS numbers of switches do not go together; correct what is said of them, or let them be planned.
        SwitchNumbersClash,
        /// A port is named that the switch does not have in the plan; correct its name, or cable it in the fabric document.
        SwitchPortUnknown,
        /// The configuration of the switch cannot be planned; the message says which value of which document is wrong.
        SwitchUnplanned,
        /// By LLDP another device is at the other end of a cable than the fabric document says; mend the cable or the document.
        SwitchMiscabled,
        /// A switch is not heard from; look at its agent and at its way to the controller.
        SwitchNotReady,
        /// The configuration of a switch is not as desired, and no rollout is the cause; `railctl describe switch` says where.
        SwitchDrifted,
        /// The leaves of a rail are configured as desired, by what was read back; there is nothing to do.
        SwitchCertified,
        /// Leaves of a rail were not read back, or not rolled out to yet; look at their agents, or `railctl switch apply`.
        SwitchUnread,
    }
    "Ports of switches" {
        /// A port is paused without end, and others stand still for it; drain the server's rail that is named, or look at the switch.
        SwitchPauseStorm,
        /// A server pauses the port of its leaf for much of the time; where its memory or PCIe is the cause look there, else at what it receives.
        SwitchPortPaused,
        /// A leaf marks packets to a server, and its NIC notifies no sender; look at its class of service (ECN on the lossless priority).
        SwitchMarksUnanswered,
        /// A NIC notifies senders of congestion, and none receives that; look at the class of notifications on the way back, or for senders beyond this cluster.
        SwitchNotificationsLost,
        /// The switch's PFC watchdog found a storm; look at what is at the other end of the port.
        SwitchWatchdog,
        /// A switch has dropped packets of the lossless class; look at headroom, PFC at both ends, and the watchdog.
        SwitchLosslessDrops,
        /// Frames arrive damaged; clean or change the cable or the optics of the port.
        SwitchPortDamage,
        /// A link comes and goes; look at the cable, the optics, and the port at the other end.
        SwitchPortFlapping,
    }
    "Rollouts to switches" {
        /// A switch could not be brought to its configuration; mend what the message says, then `railctl switch resume`.
        SwitchFailed,
        /// A switch's agent is heard and does not do what is desired; look at its log, it may be of an older release.
        SwitchSilent,
        /// A switch, or a cable to it, is not well with the configuration on trial; look at what the message names before you resume.
        SwitchUnwell,
        /// Somebody paused the rollout to switches; `railctl switch resume` lets it go on.
        SwitchRolloutPaused,
        /// Somebody cancelled the rollout to switches; `railctl switch apply` begins another.
        SwitchRolloutCancelled,
    }
    "The fabric document and the cables" {
        /// A rail has no name; give it one in the fabric document.
        RailName,
        /// Two rails have the same index or name; give every rail its own.
        DuplicateRail,
        /// The document has more rails than a fabric may have; list fewer.
        TooManyRails,
        /// The index of a rail is too large; number the rails from 0.
        RailIndex,
        /// A leaf or spine is on a rail that the document does not have; add the rail or correct the number.
        UnknownRail,
        /// A leaf has no pod; name the pod whose servers it serves.
        LeafPod,
        /// A leaf has no name; give it one in the fabric document.
        LeafName,
        /// A leaf is listed several times on different rails; list it once with all its rails.
        LeafOnSeveralRails,
        /// A leaf is listed several times; list it once in the fabric document.
        DuplicateLeaf,
        /// A leaf and a spine have the same name; give every switch its own.
        DuplicateSwitch,
        /// A spine is listed several times; list it once in the fabric document.
        DuplicateSpine,
        /// An uplink names a switch that the document does not have; add it or correct the name.
        UnknownSwitch,
        /// An uplink joins switches of different planes or without a rail in common; correct which ones it joins.
        UplinkAcrossRails,
        /// An uplink leads from a switch to itself; correct one of its ends.
        UplinkToItself,
        /// A link of a node names no NIC; say which one is cabled.
        LinkNic,
        /// A NIC is cabled to a leaf that the document does not have; add it or correct the name.
        UnknownLeaf,
        /// The rail of a link does not fit the rails of its leaf; correct one of them.
        LinkRail,
        /// A NIC is cabled to several leaves; only ports on different planes of one rail may be.
        NicOnSeveralLeaves,
        /// The same link is listed several times; list it once in the fabric document.
        DuplicateLink,
        /// A node has several NICs on one rail, and one of them is used; correct the document or the map of rails.
        NicsOnOneRail,
        /// The links of a node end in several pods and a node belongs to one; correct the document.
        NodeInSeveralPods,
        /// A port of a leaf has several cables in the document; correct the numbers of the ports.
        DuplicatePort,
        /// A node has joined that the document does not cable; add its links to the document.
        NodeNotCabled,
        /// Switches are known to be down in the document; take that out when they are up again.
        SwitchDown,
        /// Nodes are cabled in the document and have not joined; start their agents, or take them out.
        NodeNotJoined,
        /// The document cables a NIC that the node does not have; correct the name of the device.
        NicMissing,
        /// A NIC of the node is not cabled in the document; add its link to the document.
        NicNotCabled,
        /// The node says another rail of a NIC than the document; correct the document or the map of rails.
        RailMismatch,
        /// A link runs slower than the document says; look at the cable and at what both ends negotiate.
        LinkSpeed,
        /// A cable or its leaf is known to be down in the document; take that out when it is up again.
        LinkDown,
        /// A NIC hears another leaf than the document cables it to; `railctl topology verify` says which moves mend it.
        Miscabled,
        /// A NIC takes no new job because of its health; see the condition in the message.
        NicUnfit,
    }
    "What an agent found on its server" {
        /// The kernel does not answer over netlink; look at the agent's privileges and at the kernel log.
        NetlinkFailed,
        /// No NIC serves any rail; say which does with `rail-node-agent run --rails`.
        NoRail,
        /// An RDMA port has no network device; look at the driver of the NIC.
        NoNetdev,
        /// An RDMA port has no GID that its rail could use; give its network device an address.
        NoGid,
        /// A rule of --rails names a NIC that is not there; correct the rule.
        RailUnknown,
        /// A rule of --rails finds two rails for one NIC; make it say one.
        RailUnclear,
        /// Several NICs serve one rail and one of them is used; correct the rule of --rails.
        RailShared,
        /// A device went while it was read; it is read again at the next poll.
        Vanished,
        /// This release does not know the driver or vendor of a device; it is used as far as the kernel describes it.
        UnknownVendor,
        /// An attribute is there and is not what it should be; look at the driver.
        Unreadable,
        /// There are more entries than are reported; the rest is left out.
        TooMany,
        /// A PCIe link runs below what device and slot can do; reseat the device, and look at BIOS and slot.
        PcieDegraded,
        /// A library that would say more is not there; install it as the message says.
        LibraryMissing,
        /// A library is there and does not answer as it should; look at its version and the driver's.
        LibraryFailed,
        /// No job can use this GPU as it is set up; mend what the message says.
        GpuUnusable,
        /// What switches say of themselves over LLDP is not known; start lldpd on the server.
        LldpFailed,
    }
    "What changed on a server" {
        /// A NIC came; see that it is cabled and on a rail.
        NicAdded,
        /// A NIC went; look for it in the kernel log and in its slot.
        NicGone,
        /// A NIC has another name; correct rules and documents that name it.
        NicRenamed,
        /// The link of a NIC came up; nothing is to be done.
        NicUp,
        /// The link of a NIC is down; look at the cable and at the port of the switch.
        NicDown,
        /// The RDMA port of a NIC changed its state; look at its link if it is not active.
        NicPort,
        /// A NIC serves another rail than before; look at the rule of --rails.
        NicRail,
        /// A NIC has another address on its rail; find out who configures addresses if that was not meant.
        NicAddress,
        /// The GID of a NIC's address has another index; nothing is to be done, the index is read anew.
        NicGidIndex,
        /// The GID table of a NIC changed; look at its addresses if that was not meant.
        NicGids,
        /// The speed of a NIC changed; look at the cable and at what both ends negotiate.
        NicSpeed,
        /// The MTU of a NIC changed; set the same one on all NICs of the rail.
        NicMtu,
        /// A NIC has another firmware; see that all NICs have the same.
        NicFirmware,
        /// A NIC has another driver; see that all servers have the same.
        NicDriver,
        /// The PCIe address or link of a NIC changed; look at its slot if that was not meant.
        NicPci,
        /// Something else of a NIC changed; read the message.
        NicOther,
        /// A GPU came; see that it is the one that was expected.
        GpuAdded,
        /// A GPU went; look for it in the kernel log, it may have fallen off the bus.
        GpuGone,
        /// Under this index is another GPU; nothing is to be done if it was exchanged.
        GpuReplaced,
        /// The driver of a GPU changed; see that all servers have the same.
        GpuDriver,
        /// Links of a GPU to others came or went; look at NVLink and its switches.
        GpuLinks,
        /// Another NIC is nearest to a GPU; look at slots and at the rule of --rails.
        GpuNic,
        /// Memory of a GPU reaches its NIC by another path; see `railctl doctor` for what mends it.
        GpuPath,
        /// Something else of a GPU changed; read the message.
        GpuOther,
        /// A network device hears another switch, or none any more; look at the cabling.
        Neighbor,
        /// Processors, memory or NUMA nodes of the server changed; find out why if that was not meant.
        Machine,
    }
}
