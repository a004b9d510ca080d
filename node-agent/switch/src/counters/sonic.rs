//! Counters of each priority, from SONiC's database: one call, a script that runs in the database and answers with a document.

use std::{collections::BTreeMap, time::Duration};

use proto_wire::v1::{SwitchPortStatus, SwitchPriorityCounters};
use serde_json::{Map, Value};

use crate::invoke::Invocation;

/// Priorities of a link.
const PRIORITIES: u32 = 8;
/// Fields of a port, in the script's words.
const SCRIPT: &str = r"
local out = {}
local ports = redis.call('HGETALL', 'COUNTERS_PORT_NAME_MAP')
local function of(oid, names)
  local found, all = {}, redis.call('HMGET', 'COUNTERS:' .. oid, unpack(names))
  for i, name in ipairs(names) do if all[i] then found[name] = all[i] end end
  return found
end
local names = {'SAI_PORT_STAT_IF_IN_FEC_NOT_CORRECTABLE_FRAMES'}
for p = 0, 7 do
  for _, stat in ipairs({'_RX_PKTS', '_TX_PKTS', '_RX_PAUSE_DURATION_US', '_TX_PAUSE_DURATION_US'}) do
    names[#names + 1] = 'SAI_PORT_STAT_PFC_' .. p .. stat
  end
end
for i = 1, #ports, 2 do out[ports[i]] = {port = of(ports[i + 1], names), queues = {}} end
local queues = redis.call('HGETALL', 'COUNTERS_QUEUE_NAME_MAP')
for i = 1, #queues, 2 do
  local port, number = string.match(queues[i], '^(.*):(%d+)$')
  if port and out[port] and tonumber(number) < 8 then
    out[port].queues['q' .. number] = of(queues[i + 1], {'SAI_QUEUE_STAT_DROPPED_PACKETS',
      'SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS', 'SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES', 'PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED',
      'SAI_QUEUE_STAT_BYTES'})
  end
end
return cjson.encode(out)";

/// What prints them.
#[must_use]
pub fn read() -> Invocation {
    let read = Invocation::new("sonic-db-cli", &["COUNTERS_DB", "EVAL", SCRIPT, "0"]);
    read.within(Duration::from_secs(10)).saying(16 << 20)
}

/// What a port counts beside what the kernel has.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PortCounters {
    /// By priority, ascending; those that count nothing are absent.
    pub priorities: Vec<SwitchPriorityCounters>,
    /// Frames that FEC could not mend.
    pub fec_uncorrectable: u64,
}

impl PortCounters {
    /// Says so of a port.
    pub fn add(&self, port: &mut SwitchPortStatus) {
        port.priorities.clone_from(&self.priorities);
        port.fec_uncorrectable = self.fec_uncorrectable;
    }
}

/// Counters by port. The queue of a priority is the one of the same number, as SONiC's defaults and what is rendered have it.
#[must_use]
pub fn counters(said: &str) -> BTreeMap<String, PortCounters> {
    let Ok(Value::Object(ports)) = serde_json::from_str::<Value>(said.trim()) else { return BTreeMap::new() };
    let nothing = Map::new();
    let of = |said: &Value| of_port(&said["port"], said["queues"].as_object().unwrap_or(&nothing));
    ports.iter().map(|(name, said)| (name.clone(), of(said))).collect()
}

/// Counters of one port, by its own fields and those of its queues `q0` to `q7`.
#[must_use]
pub fn of_port(port: &Value, queues: &Map<String, Value>) -> PortCounters {
    let of_port = |name: &str| number(&port[name]);
    let mut counters = PortCounters {
        priorities: Vec::new(),
        fec_uncorrectable: of_port("SAI_PORT_STAT_IF_IN_FEC_NOT_CORRECTABLE_FRAMES"),
    };
    for priority in 0..PRIORITIES {
        let of_priority = |stat: &str| of_port(&format!("SAI_PORT_STAT_PFC_{priority}_{stat}"));
        let queue = queues.get(&format!("q{priority}"));
        let of_queue = |name: &str| queue.map_or(0, |queue| number(&queue[name]));
        let one = SwitchPriorityCounters {
            priority,
            pause_rx: of_priority("RX_PKTS"),
            pause_tx: of_priority("TX_PKTS"),
            paused_rx_us: of_priority("RX_PAUSE_DURATION_US"),
            paused_tx_us: of_priority("TX_PAUSE_DURATION_US"),
            ecn_marked: of_queue("SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS"),
            drops: of_queue("SAI_QUEUE_STAT_DROPPED_PACKETS"),
            watermark_bytes: of_queue("SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES"),
            storms: of_queue("PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED"),
            tx_bytes: of_queue("SAI_QUEUE_STAT_BYTES"),
        };
        if one != (SwitchPriorityCounters { priority, ..SwitchPriorityCounters::default() }) {
            counters.priorities.push(one);
        }
    }
    counters
}

/// A number; SONiC's database has texts. What is none is 0.
#[must_use]
pub fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_taken_by_priority() {
        let said = r#"{"Ethernet0": {"port": {"SAI_PORT_STAT_PFC_3_RX_PKTS": "5", "SAI_PORT_STAT_PFC_3_TX_PAUSE_DURATION_US": "70",
                       "SAI_PORT_STAT_PFC_0_RX_PKTS": "0", "SAI_PORT_STAT_IF_IN_FEC_NOT_CORRECTABLE_FRAMES": "2"},
                       "queues": {"q3": {"SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS": "9", "SAI_QUEUE_STAT_BYTES": "8000", "PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED": "1"},
                                  "q5": {"SAI_QUEUE_STAT_DROPPED_PACKETS": "4"}}},
                       "Ethernet4": {"port": {}, "queues": {}}}"#;
        let all = counters(&format!("{said}\n"));
        let first = &all["Ethernet0"];
        assert_eq!(first.fec_uncorrectable, 2);
        let expected = [
            SwitchPriorityCounters {
                priority: 3,
                pause_rx: 5,
                paused_tx_us: 70,
                ecn_marked: 9,
                storms: 1,
                tx_bytes: 8000,
                ..SwitchPriorityCounters::default()
            },
            SwitchPriorityCounters { priority: 5, drops: 4, ..SwitchPriorityCounters::default() },
        ];
        assert_eq!(first.priorities, expected);
        assert_eq!(all["Ethernet4"], PortCounters::default());
        // An empty table of Lua is an empty list.
        assert!(counters("[]").is_empty() && counters("{}").is_empty() && counters("(error)").is_empty());
        let mut port = SwitchPortStatus::default();
        first.add(&mut port);
        assert_eq!((port.priorities.len(), port.fec_uncorrectable), (2, 2));
    }
}
