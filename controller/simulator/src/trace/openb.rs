//! Alibaba clusterdata, cluster-trace-gpu-v2023: `openb_pod_list_*.csv`. A pod is a job on one server.

use proto_model::GpuModel;

use super::{
    fields::{Fields, gpus, run, time},
    row::{Account, Asks, Fault, Read, TraceJob},
};

/// CPUs that a pod is believed to ask for at most.
const MAX_CPUS: f64 = 65_536.0;
/// MiB of memory that a pod is believed to ask for at most.
const MAX_MIB: f64 = 1e9;

pub(super) const NEEDED: [&str; 4] = ["num_gpu", "creation_time", "deletion_time", "scheduled_time"];

pub(super) fn read(fields: &Fields<'_>, line: u64, account: &mut Account) -> Result<Read, Fault> {
    let number = fields.needed("num_gpu")?;
    let created = time(fields.needed("creation_time")?, "creation_time")?;
    let deleted = fields.number("deletion_time")?.map(|at| time(at, "deletion_time")).transpose()?;
    let scheduled = fields.number("scheduled_time")?.map(|at| time(at, "scheduled_time")).transpose()?;
    let phase = fields.text("pod_phase");
    let (gpus, part) = gpus(number, "num_gpu")?;
    if part {
        account.repair("PartOfAGpu", line, "num_gpu", format_args!("rounded up to {gpus}"));
    }
    if let Some(share) = fields.number("gpu_milli")?.filter(|share| (0.0..1000.0).contains(share)) {
        let what = format_args!("{share} thousandths of a GPU; GPUs are not shared here: a whole one");
        account.repair("GpuShare", line, "gpu_milli", what);
    }
    let begun = match scheduled {
        Some(at) if at < created => {
            account.repair("BeforeCreation", line, "scheduled_time", "the creation time is taken");
            created
        }
        Some(at) => at,
        None if phase.eq_ignore_ascii_case("pending") => {
            return Err(Fault::new("NeverRan", "scheduled_time", "the pod was never scheduled"));
        }
        None => {
            account.repair("NoStart", line, "scheduled_time", "nothing is there; the creation time is taken");
            created
        }
    };
    let tenant = match fields.text("qos") {
        "" => "default".to_owned(),
        qos => qos.to_ascii_lowercase(),
    };
    let seen = deleted.unwrap_or(0).max(begun);
    let asks = asks(fields)?;
    let mut job = TraceJob { line, submit: created, run: begun, limit: None, gpus, tenant, own: None, asks };
    let Some(deleted) = deleted else {
        account.repair("NotEnded", line, "deletion_time", "nothing is there; it ends with the trace");
        return Ok(Read { job, open: true, seen });
    };
    if deleted < begun {
        let what = format!("{} s before it was scheduled", (begun - deleted) as f64 / 1e3);
        return Err(Fault::new("Negative", "deletion_time", what));
    }
    job.run = run((deleted - begun) as f64 / 1e3, "deletion_time")?;
    if job.run == 0 {
        job.run = 1000;
        account.repair("ZeroLength", line, "deletion_time", "taken for one second");
    }
    Ok(Read { job, open: false, seen })
}

/// CPUs and memory of the pod, rounded up, and the models of GPU that it takes (`V100M16|V100M32`).
fn asks(fields: &Fields<'_>) -> Result<Asks, Fault> {
    let amount = |name: &'static str, most: f64| -> Result<f64, Fault> {
        match fields.number(name)? {
            Some(amount) if !(0.0..=most).contains(&amount) => {
                Err(Fault::new("Absurd", name, format!("{amount} is not from 0 to {most}")))
            }
            amount => Ok(amount.unwrap_or(0.0)),
        }
    };
    let cpus = (amount("cpu_milli", MAX_CPUS * 1e3)? / 1e3).ceil() as u32;
    let memory = (amount("memory_mib", MAX_MIB)?.ceil() as u64) << 20;
    let named = fields.text("gpu_spec").split('|').map(str::trim).filter(|model| !model.is_empty());
    let models: Result<_, _> = named.map(GpuModel::new).collect();
    let models = models.map_err(|error| Fault::new("GpuSpec", "gpu_spec", error.to_string()))?;
    Ok(Asks { cpus, memory, models })
}
