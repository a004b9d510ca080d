//! Series of what no cluster of one machine has (NICs, switches, Kubernetes, faults), served as a program would, so that every panel has
//! something to show.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// `N` grows with each scrape. No program of the run has these by itself.
const PAGE: &str = r#"rail_nic_unfit{device="mlx5_0",rail="0"} 0
rail_nic_unfit{device="mlx5_1",rail="1"} 0
rail_nic_score{device="mlx5_0",rail="0"} 97
rail_nic_condition{device="mlx5_1",rail="1",condition="Lossy"} 1
rail_nic_events_total{device="mlx5_0",rail="0",event="rx_bytes"} N000
rail_nic_events_total{device="mlx5_0",rail="0",event="tx_bytes"} N000
rail_nic_events_total{device="mlx5_0",rail="0",event="pause_rx_us"} N0
rail_nic_events_total{device="mlx5_0",rail="0",event="ecn_seen"} N
rail_nic_events_total{device="mlx5_0",rail="0",event="loss_out"} N
rail_nic_probes_total{device="mlx5_1",outcome="passed"} N
rail_inventory_changes_total{change="NicGone"} N
rail_agent_stale_commands_total N
rail_agent_log_bytes_total N
rail_switch_port_up{switch="p0r0",port="swp1"} 0
rail_switch_port_bytes_total{switch="p0r0",port="swp1",direction="rx"} N00
rail_switch_port_events_total{switch="p0r0",port="swp1",event="flap"} N
rail_switch_priority_events_total{switch="p0r0",port="swp1",priority="3",event="pause_rx_us"} N0
rail_switch_priority_events_total{switch="p0r0",port="swp1",priority="3",event="ecn_marked"} N
rail_switch_priority_watermark_bytes{switch="p0r0",port="swp1",priority="3"} 65536
rail_job_preemptions_total{tenant="made-up",queue="-"} 1
rail_loop_refused_total{cause="queue-full"} N
rail_loop_commit_failures_total{cause="transient"} 1
rail_calls_queued_total{flow="tenant"} N
rail_calls_limited_total{cause="flow-full"} N
rail_calls_waiting{queue="all"} 0
rail_refusals_total{rpc="GetJob",role="user",reason="NOT_OWNER"} 1
rail_connections_refused_total{cause="handshake-shed"} 1
rail_call_seconds_count{call="/rail.v1.JobService/GetJob",code="UNAVAILABLE"} 1
rail_node_claims_refused_total{verdict="ignored",what="observation"} 1
rail_webhook_tries_total{outcome="delivered"} N
rail_operator_leads 1
rail_operator_reconciles_total{kind="RailJob",outcome="done"} N
rail_operator_calls_total{kind="RailJob",call="GetJob"} N
rail_operator_writes_total{kind="Node",what="conditions"} N
"#;

/// Names of the series, each once for each set of labels.
pub(super) fn series() -> impl Iterator<Item = &'static str> {
    PAGE.lines().filter_map(|line| line.rsplit_once(' ')).map(|(series, _)| series)
}

/// Serves the page until it is dropped.
pub(super) struct MadeUp {
    pub(super) address: SocketAddr,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MadeUp {
    pub(super) fn serve() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let thread = thread::spawn(move || {
            for (scrape, stream) in (1_u64..).zip(listener.incoming()) {
                if ends.load(Ordering::Acquire) {
                    return;
                }
                // A scraper that is gone comes again.
                let _ = stream.and_then(|stream| answer(stream, scrape));
            }
        });
        Self { address, over, thread: Some(thread) }
    }
}

fn answer(mut stream: TcpStream, scrape: u64) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let page: String = PAGE
        .lines()
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(series, value)| format!("{series} {}\n", value.replace('N', &scrape.to_string())))
        .collect();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close";
    write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{page}", page.len())
}

impl Drop for MadeUp {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        // It waits for whoever comes next.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
