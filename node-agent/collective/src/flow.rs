//! Flow control: what bounds every buffer, and why nothing can deadlock.
//!
//! **Everything that may be sent has room at the receiver, before it is sent.** So a transport always reads every link,
//! whatever comes first finds its place, and no link ever holds up another. There is no "stop reading".
//!
//! * *Announcements.* A node that has started a collective says so to every peer: by its first data frame, or by a
//!   [`Ready`](crate::header::Kind::Ready) frame where it has no data to send or may not yet. Every such frame carries the whole
//!   call, so a mismatch is found by everyone who hears it; an operation completes only when the call of *every* node
//!   was seen and is equal, by this node or by one that answers for it with its contribution (doubling). At most
//!   [`MAX_ACTIVE`](crate::units::MAX_ACTIVE) collectives are active, in order, so a peer that names a later one violates the protocol,
//!   and the state kept for operations not started here is bounded.
//! * *Landing.* To a peer that has announced the operation, gathered data needs no permission: its place is the
//!   ranks' own output buffers. For data that is reduced, the receiver stages: each source of each reduction may have
//!   a window of chunks staged, and is granted more as chunks are reduced. A node's reductions have fewer sources together than there
//!   are nodes, whatever the algorithm, and an operation starts only when slots for all its windows are set aside.
//! * *Sending ahead.* A few small chunks may be sent before the peer has announced the operation, so that small operations
//!   cost one trip for each step. Their number is bounded for each peer, and each has a slot there. The peer's
//!   announcement of the operation gives the credit back.
//! * *Notifications* are control frames of ranks. One to a peer is at most [`MAX_NOTIFICATIONS`](crate::units::MAX_NOTIFICATIONS)
//!   further than the first that the peer has not acknowledged, so the peer holds no more than as many that came before earlier ones. An engine
//!   that may make no more reads nothing of the rank that wants to, until it may.
//! * *Control frames* need no permission. For each operation and peer there is one announcement, and one grant for a quarter
//!   of a window; acknowledgements ride on other frames or stand for 48 KiB or two milliseconds.
//!
//! **Progress.** Consider the oldest operation that is not complete on some node. All nodes will start it (a long one when they have
//! heard that node 0 has, which waits for none of them): their ranks
//! post it (else its deadline ends it with an error that names the missing), operations start in order, and the staging
//! it needs is free because older ones are complete. Its announcements go out, as control frames always can.
//! A chunk that is sent arrives and frees its link's window by an acknowledgement that needs no permission.
//! A frame's sending slot is taken when a rail has room for the frame, and is free when the frame is acknowledged. What gets
//! no permission because it needs none (results, relayed and gathered data) arrives once it exists. It remains that every reduction
//! gets on; it frees its staging slots chunk by chunk as it does.
//! * *Reductions of all nodes* (direct, one-shot). Sources send their inputs, in ascending order, and every chunk needs the same
//!   chunk of all sources. Take the least chunk not reduced: a source that has not sent it has sent only lesser ones of the
//!   flow, all of which are reduced and free, so its window is open and it may send. So the least chunk is reduced at some
//!   time, and then the next. One-shot in place, a reduction also waits until its own node has handed the same chunk out to all. Take the
//!   least chunk that any node has not reduced: all nodes have reduced the lesser ones, so all windows are open for it, so every
//!   node hands it out to all; so it is reduced everywhere.
//! * *Partial sums of a ring.* A chunk has one source, so it can go on in whichever order it comes, and its slot is free when it
//!   does. Its block's windows form a chain that ends at the block's owner, which waits for nobody: the owner's window opens again
//!   and again, so the one's before it does, and so on back to where the block starts. Windows of different blocks share
//!   nothing, so no chain closes to a circle.
//! * *Doubling.* There is one chunk of everything, so all windows are open from the start. The first message is made of inputs; each
//!   further one of inputs and of what came in the rounds before it, here and at the source, so by induction over the rounds
//!   every one is made and arrives. What was staged is kept until it has been sent on. A message that may not be sent ahead, because
//!   the peer has not said that it has started, waits for that: both say so after a while where they have nothing to send.
//! * *Halving.* A chunk needs one source, and this node's own partial sum of the step before. In the first step both are inputs. Partial
//!   sums of a step need those of the steps before it and no others, here and at the source, and have windows of their own;
//!   so by induction over the steps every one is made.
//!
//! So every chunk arrives, and the operation completes.
//!
//! **Overwriting.** In place, results land where contributions and partial sums are sent from. A result exists only after its node
//! received what it is made of, so what is overwritten has arrived; one-shot, whose results do not travel, sends copies.
//!
//! **Rails that die.** A chunk's name does not contain its rail, contributions are staged under (chunk, source) and combined only
//! when all are there, and what was handed to a link is remembered until the peer has it. The receiver of a dead link first takes
//! nothing more from it (a chunk that was half there counts as not begun: its slot and its place in the window are free again),
//! then says how many frames it took; only the rest is sent again, over other links, before anything new. So a chunk that is
//! sent again has the room that it had the first time, and every argument above holds with "arrives" meaning "over some
//! rail, in the end", as long as one rail to each peer lives or comes back. A sending slot is free when its chunk is
//! acknowledged. An operation that ends while frames of the ranks' buffers are not acknowledged copies these into the keep,
//! a ring in the scratch region; if that is full, it ends when some are. Links have windows, so the keep is bounded and so is
//! what a node remembers. Fences, probes and notices are not counted and need no permission: of each there is one
//! waiting for each link, a newer one replaces it.
