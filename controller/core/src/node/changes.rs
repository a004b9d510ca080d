//! What administrators and joining servers change of nodes: their labels, taints and whether they take jobs; join tokens; a node that
//! joins, and one that is deleted.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use controller_state::{Blame, CoreError, Key, Link, TokenRecord, fresh_view, is_drained};
use proto_model::{Health, Node, NodeName, Observed, Reason, ReasonCode, TokenHolder};

use crate::{
    context::Step,
    event::{NodeChange, Reply, ToNode},
};

impl Step<'_> {
    pub(crate) fn update_node(
        &mut self,
        name: &NodeName,
        change: NodeChange,
        if_version: u64,
    ) -> Result<Reply, CoreError> {
        let node = self.state.base.nodes.get(name).cloned();
        let node = node.ok_or_else(|| CoreError::NodeNotFound { node: name.clone() })?;
        let current = self.state.version(&Key::Node(name.clone())).unwrap_or(0);
        if if_version != 0 && if_version != current {
            return Err(CoreError::Conflict { what: format!("node '{name}'"), asked: if_version, current });
        }
        let mut wanted = (*node).clone();
        if let Some((unschedulable, reason)) = change.unschedulable {
            (wanted.unschedulable, wanted.unschedulable_reason) = (unschedulable, reason);
        }
        wanted.labels = change.labels.unwrap_or(wanted.labels);
        wanted.taints = change.taints.unwrap_or(wanted.taints);
        if wanted == *node {
            return Ok(Reply::Node(node));
        }
        wanted.generation += 1;
        let leaves = is_drained(&wanted) && !is_drained(&node);
        let node = Arc::new(wanted);
        self.state.put(Arc::clone(&node));
        if leaves {
            self.leave(name);
        }
        self.request_scheduling_pass();
        Ok(Reply::Node(node))
    }

    pub(crate) fn delete_node(
        &mut self,
        name: &NodeName,
        force: bool,
        uid: Option<&str>,
    ) -> Result<Reply, CoreError> {
        let Some(node) = self.state.base.nodes.get(name).cloned() else {
            return Err(CoreError::NodeNotFound { node: name.clone() });
        };
        if uid.is_some_and(|uid| uid != node.uid) {
            return Err(CoreError::NodeReplaced { node: name.clone() });
        }
        let holds = self.state.index.holds.get(name).cloned().unwrap_or_default();
        if !force && !holds.is_empty() {
            let jobs =
                holds.keys().filter_map(|uid| Some(self.state.base.jobs.get(uid)?.job.id.clone())).collect();
            return Err(CoreError::NodeBusy { node: name.clone(), jobs });
        }
        self.push(name, ToNode::Close { reason: "the node was deleted".to_owned() });
        self.state.set_link(name, None);
        self.state.remove::<Node>(name);
        self.release_claims(name, &node);
        // Join tokens of a deleted server bring nobody back, spent or not.
        self.withdraw_tokens(&TokenHolder::Node(name.clone()));
        self.forget_drains_of(name);
        for (uid, position) in holds {
            let Some(entry) = self.entry(uid) else { continue };
            let ending = entry.attempt.as_ref().is_some_and(|attempt| attempt.ending.is_some());
            self.vouched(uid, position);
            if !ending {
                let message =
                    format!("an administrator deleted node '{name}' and vouched that nothing runs there");
                let cause = Reason::new(ReasonCode::NodeDeleted, message)
                    .scope(format!("node/{name}"))
                    .since(self.now);
                self.fail(uid, Blame::Infrastructure, vec![cause]);
            }
            self.refresh_reasons(uid);
            self.assess(uid);
        }
        self.request_scheduling_pass();
        Ok(Reply::Done)
    }

    /// The administrator has confirmed the end of a node's part in the node's place.
    fn vouched(&mut self, uid: proto_model::JobUid, position: u32) {
        let key = (uid, position);
        let old = self.state.base.views.get(&key).cloned();
        let mut view = old.unwrap_or_else(|| fresh_view(Observed::Ended));
        view.state = Observed::Ended;
        self.state.set_view(key, Some(view));
    }

    pub(crate) fn create_token(
        &mut self,
        holder: TokenHolder,
        hash: [u8; 32],
        lifetime: Option<Duration>,
    ) -> Result<Reply, CoreError> {
        let config = &self.state.config;
        let (limit, longest) = (config.max_tokens, config.token_lifetime_max);
        if self.state.base.tokens.len() >= limit {
            return Err(CoreError::Full {
                what: "join tokens",
                limit,
                remedy: "use them, or wait until they expire",
            });
        }
        let lifetime = lifetime.unwrap_or(longest);
        if lifetime > longest || lifetime.is_zero() {
            let message = format!("must be more than 0 and at most {} s", longest.as_secs());
            return Err(CoreError::Invalid { field: "lifetime", message });
        }
        let expires = self.now.plus(lifetime);
        let record = Arc::new(TokenRecord { hash, holder, expires, used_by: None });
        self.state.put(Arc::clone(&record));
        Ok(Reply::Token(record))
    }

    pub(crate) fn withdraw_tokens(&mut self, holder: &TokenHolder) -> Reply {
        let tokens = self.state.base.tokens.iter();
        let hashes: Vec<_> =
            tokens.filter(|(_, token)| token.holder == *holder).map(|(hash, _)| *hash).collect();
        hashes.into_iter().for_each(|hash| self.state.remove::<TokenRecord>(&hash));
        Reply::Done
    }

    /// The token of that hash, which `holder` may use for this signing request.
    pub(crate) fn good_token(
        &self,
        holder: TokenHolder,
        hash: [u8; 32],
        csr: [u8; 32],
    ) -> Result<Arc<TokenRecord>, CoreError> {
        let record = self.state.base.tokens.get(&hash).filter(|record| record.expires > self.now).cloned();
        let record = record.ok_or_else(|| CoreError::TokenInvalid { holder: holder.clone() })?;
        if record.holder != holder {
            return Err(CoreError::TokenForOther { holder });
        }
        if record.used_by.is_some_and(|used| used != csr) {
            return Err(CoreError::TokenUsed { holder });
        }
        Ok(record)
    }

    /// From now on only the same signing request may use the token.
    pub(crate) fn spend_token(&mut self, record: &TokenRecord, csr: [u8; 32]) {
        if record.used_by.is_none() {
            self.state.put(Arc::new(TokenRecord { used_by: Some(csr), ..record.clone() }));
        }
    }

    pub(crate) fn join(&mut self, node: NodeName, hash: [u8; 32], csr: [u8; 32]) -> Result<Reply, CoreError> {
        let record = self.good_token(TokenHolder::Node(node.clone()), hash, csr)?;
        let limit = self.state.config.max_nodes;
        let known = self.state.base.nodes.get(&node).cloned();
        if known.is_none() && self.state.base.nodes.len() >= limit {
            return Err(CoreError::Full { what: "nodes", limit, remedy: "delete nodes that are gone" });
        }
        self.spend_token(&record, csr);
        if let Some(known) = known {
            return Ok(Reply::Node(known));
        }
        let joined = Arc::new(Node {
            name: node.clone(),
            uid: self.random_uid(),
            generation: 1,
            created: self.now,
            unschedulable: false,
            unschedulable_reason: String::new(),
            labels: BTreeMap::new(),
            taints: BTreeSet::new(),
            quarantined: None,
            strikes: Vec::new(),
            quarantine: Vec::new(),
            provisional: BTreeSet::new(),
            inventory: Arc::default(),
            health: Health::NotReady,
            health_since: self.now,
            reasons: vec![Reason::new(
                ReasonCode::NotHeard,
                "the node has joined; its agent has not connected yet",
            )],
            agent_version: String::new(),
        });
        self.state.put(Arc::clone(&joined));
        self.state.set_link(&node, Some(Link::absent(self.now, None)));
        Ok(Reply::Node(joined))
    }
}
