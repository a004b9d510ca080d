//! Small traces, good and hostile.

use proptest::prelude::*;
use std::collections::BTreeMap;

use super::*;

fn jobs(text: &str) -> Trace {
    read(text.as_bytes()).unwrap()
}

fn codes(counts: &BTreeMap<&'static str, Count>) -> Vec<(&'static str, u64)> {
    counts.iter().map(|(code, count)| (*code, count.rows)).collect()
}

#[test]
fn philly_rows_are_kept_repaired_or_refused() {
    let trace = jobs(
        "timestamp,duration,num_gpus,gpu_time,cluster\n\
         2017-10-09 07:01:55,66.5,1,66.5,11cb48\n\
         2017-10-09 06:13:03,100.0,2,201.5,62 14E9\n\
         \n\
         2017-10-09 06:13:03,-1,2,2,a\n\
         2017-10-09 06:13:03,1,,2,a\n\
         2017-13-09 06:13:03,1,1,1,a\n\
         yesterday,1,1,1,a\n\
         2017-10-09 06:13:03,1e12,1,1,a\n\
         2017-10-09 06:13:03,x,1,1,a\n\
         2017-10-09 06:13:03,nan,1,1,a\n\
         2017-10-09 06:13:03,1,1\n\
         2017-10-10 00:00:00,0,0.5,0,\n\
         2017-10-10 00:00:00,5,0,0,a",
    );
    assert_eq!(trace.format, Format::Philly);
    let account = &trace.account;
    assert_eq!((account.rows, account.kept, account.refused, account.blank), (12, 3, 9, 1));
    assert_eq!(account.repaired, 2);
    assert_eq!(
        codes(&account.repairs),
        [("GpuTime", 1), ("PartOfAGpu", 1), ("TenantName", 2), ("Unsorted", 1), ("ZeroLength", 1)]
    );
    assert_eq!(
        codes(&account.refusals),
        [
            ("Absurd", 2),
            ("Fields", 1),
            ("Missing", 2),
            ("Negative", 1),
            ("NoGpu", 1),
            ("NotANumber", 1),
            ("NotATime", 1)
        ]
    );
    assert_eq!(account.refusals["Negative"].examples, ["line 5, duration: -1 s"]);
    assert_eq!(account.refusals["Missing"].examples[0], "line 6, num_gpus: nothing is there");
    let first = &trace.jobs[0];
    assert_eq!((first.line, first.submit, first.run, first.gpus), (3, 1_507_529_583_000, 100_000, 2));
    assert_eq!(first.tenant, "62-14e9");
    assert_eq!(trace.jobs[2].tenant, "default");
}

#[test]
fn pods_of_openb_are_jobs_on_one_server() {
    let trace = jobs(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n\
         p1,88000,327680,8,1000,,Burstable,Succeeded,9437497,10769854,9437497\n\
         p2,4000,15258,1,220,\"V100M16|V100M32\",BE,Running,9679175,,9679180\n\
         p3,16000,32768,1,1000,,LS,Pending,9967058,9968575,\n\
         p4,16000,32768,0,0,,LS,Succeeded,9967058,9968575,9967063\n\
         p5,16000,32768,2,1000,,LS,Succeeded,9967058,9960000,9967063\n",
    );
    assert_eq!(trace.format, Format::Openb);
    assert_eq!((trace.account.kept, trace.account.refused), (2, 3));
    assert_eq!(codes(&trace.account.repairs), [("GpuShare", 1), ("NotEnded", 1)]);
    assert_eq!(codes(&trace.account.refusals), [("Negative", 1), ("NeverRan", 1), ("NoGpu", 1)]);
    assert_eq!(trace.jobs[0].run, (10_769_854 - 9_437_497) * 1000);
    assert_eq!(trace.jobs[1].run, (10_769_854 - 9_679_180) * 1000, "it ends with the trace");
    assert_eq!(trace.jobs[1].tenant, "be");
}

#[test]
fn the_standard_workload_format_has_18_numbers() {
    let trace = jobs(
        "; Version: 2.2\n; MaxProcs: 128\n\
         1 0 10 100 8 -1 -1 8 200 -1 1 3 4 -1 1 -1 -1 -1\n\
         2 60 10 100 16 -1 -1 -1 50 -1 1 3 -1 -1 1 -1 -1 -1\n\
         3 70 10 -1 16 -1 -1 16 50 -1 5 3 -1 -1 1 -1 -1 -1\n\
         4 80 10 0 1 -1 -1 1 -1 -1 1 -1 -1 -1 1 -1 -1 -1\n\
         5 80 10 7 1 -1\n",
    );
    assert_eq!(trace.format, Format::Swf);
    assert_eq!((trace.account.kept, trace.account.refused, trace.account.comments), (3, 2, 2));
    assert_eq!(trace.account.notes, ["; Version: 2.2", "; MaxProcs: 128"]);
    assert_eq!(codes(&trace.account.repairs), [("NoRequest", 1), ("OverLimit", 1), ("ZeroLength", 1)]);
    assert_eq!(codes(&trace.account.refusals), [("Fields", 1), ("NeverRan", 1)]);
    assert_eq!((trace.jobs[0].limit, trace.jobs[1].limit), (Some(200_000), Some(100_000)));
    assert_eq!(
        trace.jobs.iter().map(|job| &*job.tenant).collect::<Vec<_>>(),
        ["group-4", "user-3", "default"]
    );
}

/// As the files of the Parallel Workloads Archive are: a long header, columns padded with blanks, times that are not
/// whole, jobs that were cancelled in the queue, and parts of jobs that were swapped out.
#[test]
fn a_log_of_the_archive_is_read_to_the_letter() {
    let trace = jobs(
        ";       Version: 2.2\n\
         ;      Computer: IBM SP2\n\
         ;  Installation: Some Centre\n\
         ;       MaxJobs: 7\n\
         ;    MaxRecords: 9\n\
         ;    Preemption: No\n\
         ; UnixStartTime: 835466088\n\
         ; TimeZoneString: US/Eastern\n\
         ;      MaxNodes: 512\n\
         ;      MaxProcs: 512\n\
         ;    MaxRuntime: 64800\n\
         ;         Queue: 1 batch\n\
         ;\n\
         \x20   1        0    1215     171    1    166    -1    1    1200  -1  1    1   -1    -1  1 -1 -1 -1\n\
         \x20   2       61      -1     3.5    4   2.25  1024   -1     600 512  0   17    3     2  2  1 -1 -1\n\
         \x20   3       61     900       0   -1     -1    -1    8     600  -1  5   17    3    -1  2 -1 -1 -1\n\
         \x20   4       75     900      -1   -1     -1    -1    8     600  -1  5   17    3    -1  2 -1 -1 -1\n\
         \x20   5       80      10      40    2     38    -1    2      60  -1  5   17    3    -1  2 -1 -1 -1\n\
         \x20   6      100       0     500   16     -1    -1   16      -1  -1  1   18    3    -1  0 -1  1 60\n\
         \x20   6      100       0     200   16     -1    -1   16      -1  -1  2   18    3    -1  0 -1 -1 -1\n\
         \x20   6      100     150     300   16     -1    -1   16      -1  -1  3   18    3    -1  0 -1 -1 -1\n\
         \x20   7      101       0       9    0     -1    -1    0      -1  -1 -1   18    3    -1  0 -1 -1 -1\n",
    );
    let account = &trace.account;
    assert_eq!((trace.format, account.comments, account.notes.len()), (Format::Swf, 13, 13));
    assert_eq!((account.rows, account.kept, account.refused), (9, 4, 5));
    assert_eq!(codes(&account.refusals), [("NeverRan", 2), ("NoGpu", 1), ("PartOfAJob", 2)]);
    assert_eq!(codes(&account.repairs), [("NoRequest", 2)]);
    let reported: Vec<_> = trace
        .jobs
        .iter()
        .map(|job| (job.line, job.submit, job.run, job.limit, job.gpus, &*job.tenant))
        .collect();
    assert_eq!(
        reported,
        [
            (14, 0, 171_000, Some(1_200_000), 1, "user-1"),
            (15, 61_000, 3_500, Some(600_000), 4, "group-3"),
            (18, 80_000, 40_000, Some(60_000), 2, "group-3"),
            (19, 100_000, 500_000, None, 16, "group-3"),
        ]
    );
}

/// As `openb_pod_list_default.csv` is: not sorted by time, shares of GPUs, pods that take none, that were never
/// scheduled, and that began with the trace.
#[test]
fn a_pod_list_of_openb_is_read_to_the_letter() {
    let trace = jobs(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n\
         pod-0000,12000,16384,1,1000,,LS,Running,0,12537496,0\n\
         pod-0001,6000,12288,1,460,,LS,Running,427061,12902960,427061\n\
         pod-0002,32000,65536,0,0,,LS,Running,8962274,12902960,8962277\n\
         pod-0003,88000,327680,8,1000,,Burstable,Succeeded,9437497,10769854,9437497\n\
         pod-0004,11908,47104,1,1000,,BE,Pending,10001278,10001403,\n\
         pod-0005,11400,48128,1,1000,A10|G2|T4|V100M16|V100M32,LS,Running,10265011,10274316,10265045\n\
         pod-0006,32200,132096,4,1000,,Guaranteed,Failed,10814729,10815277,10814729\n\
         pod-0007,3152,5600,1,810,,BE,Failed,10212626,10212773,10212626\n\
         pod-0008,4000,15258,2,1000,P100,BE,Failed,10907668,10907668,10907668\n",
    );
    let account = &trace.account;
    assert_eq!((trace.format, account.rows, account.kept, account.refused), (Format::Openb, 9, 7, 2));
    assert_eq!(codes(&account.refusals), [("NeverRan", 1), ("NoGpu", 1)]);
    assert_eq!(codes(&account.repairs), [("GpuShare", 2), ("Unsorted", 1), ("ZeroLength", 1)]);
    let reported: Vec<_> =
        trace.jobs.iter().map(|job| (job.line, job.submit, job.run, job.gpus, &*job.tenant)).collect();
    assert_eq!(
        reported,
        [
            (2, 0, 12_537_496_000, 1, "ls"),
            (3, 427_061_000, 12_475_899_000, 1, "ls"),
            (5, 9_437_497_000, 1_332_357_000, 8, "burstable"),
            (9, 10_212_626_000, 147_000, 1, "be"),
            (7, 10_265_011_000, 9_271_000, 1, "ls"),
            (8, 10_814_729_000, 548_000, 4, "guaranteed"),
            (10, 10_907_668_000, 1_000, 2, "be"),
        ]
    );
}

#[test]
fn statistics_are_met_by_what_is_drawn() {
    let trace = jobs(
        "id,gpu_job_num,avg_run_time_gpu,avg_gpu_num,med_run_time_gpu,max_run_time_gpu,max_gpu,complete_gpu_time,cancel_gpu_time,fail_gpu_time\n\
         Kalos,19907,1259.689,26.77,124.0,625740.0,1024.0,1667685146.0,3239202064.0,426292851.0\n\
         bad,1,10,2000,5,100,1024,,,\n",
    );
    assert_eq!((trace.format, trace.account.refused), (Format::Acme, 1));
    let of = &trace.statistics[0];
    let jobs = acme::draw(of, 20_000, 7);
    let mean = |value: &dyn Fn(&TraceJob) -> f64| jobs.iter().map(value).sum::<f64>() / jobs.len() as f64;
    let near =
        |value: f64, wanted: f64| assert!((value / wanted - 1.0).abs() < 0.15, "{value} is not {wanted}");
    near(mean(&|job| f64::from(job.gpus)), 26.77);
    near(mean(&|job| job.run as f64 / 1e3), 1259.689);
    near(mean(&|job| f64::from(job.gpus) * job.run as f64 / 1e3), of.gpu_time.unwrap());
    let mut runs: Vec<u64> = jobs.iter().map(|job| job.run).collect();
    runs.sort_unstable();
    near(runs[runs.len() / 2] as f64 / 1e3, 124.0);
    assert_eq!(jobs.iter().map(|job| job.gpus).max(), Some(1024));
    assert_eq!(jobs, acme::draw(of, 20_000, 7));
    assert_ne!(jobs, acme::draw(of, 20_000, 8));
}

#[test]
fn what_is_no_trace_is_refused() {
    let error = |text: &str| read(text.as_bytes()).unwrap_err();
    assert_eq!(error(""), TraceError::Empty);
    assert_eq!(error("\n \n"), TraceError::Empty);
    assert!(matches!(error("hello"), TraceError::Unknown { line: 1, .. }));
    assert!(matches!(error("timestamp,duration\n"), TraceError::NoColumn { column: "num_gpus", .. }));
    assert!(matches!(error("timestamp,timestamp\n"), TraceError::TwoColumns { .. }));
    let nothing = error("timestamp,duration,num_gpus\n2017-10-09 07:01:55,-1,1\n");
    assert_eq!(
        nothing.to_string(),
        "none of 1 rows can be used; the first is refused at line 2, duration: -1 s"
    );
}

#[test]
fn hostile_bytes_are_counted() {
    let mut text = b"timestamp,duration,num_gpus\n2017-10-09 07:01:55,1,1\n".to_vec();
    text.extend(std::iter::repeat_n(b'9', 2 * lines::MAX_LINE));
    text.extend(b"\n\xff\xfe,1,1\n1,\"2,3\n1,\"2\"3,4\n1e308,1,1\ninf,1,1\n5,1,4294967296\n\0\0\0\n");
    text.extend(b"2017-02-29 00:00:00,1,1\n2016-02-29 00:00:00,1,1\r\n2017-10-09 07:01:55,1,1");
    let trace = read(&text).unwrap();
    assert_eq!(trace.account.rows, trace.account.kept + trace.account.refused);
    assert_eq!((trace.account.rows, trace.account.kept), (12, 3));
    assert_eq!(
        codes(&trace.account.refusals),
        [("Absurd", 3), ("Fields", 1), ("LineTooLong", 1), ("NotATime", 1), ("NotText", 1), ("Quote", 2)]
    );
}

proptest! {
    /// However the bytes are cut, the same is read.
    #[test]
    fn pieces_do_not_matter(cuts in proptest::collection::vec(0_usize..400, 0..12), tail in ".{0,80}") {
        let text = format!(
            "timestamp,duration,num_gpus,gpu_time,cluster\r\n2017-10-09 07:01:55,66.0,1,66.0,11cb48\r\n\r\n2017-10-09 06:13:03,2951.0,1,2951.0,6214e9\n{tail}"
        );
        let bytes = text.as_bytes();
        let whole = read(bytes);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let mut decoder = Decoder::new();
        for pair in cuts.windows(2) {
            decoder.push(&bytes[pair[0]..pair[1]]);
        }
        prop_assert_eq!(decoder.finish(), whole);
    }

    /// No text makes it fall over, and no row is lost.
    #[test]
    fn every_row_is_accounted_for(
        head in prop_oneof![
            Just("timestamp,duration,num_gpus,gpu_time,cluster"),
            Just("name,num_gpu,gpu_milli,qos,pod_phase,creation_time,deletion_time,scheduled_time"),
            Just("id,avg_run_time_gpu,avg_gpu_num,med_run_time_gpu,max_run_time_gpu,max_gpu"),
            Just("1 0 10 100 8 -1 -1 8 200 -1 1 3 4 -1 1 -1 -1 -1"),
        ],
        rows in proptest::collection::vec("[-0-9a-z.,: \"+]{0,60}", 0..40),
    ) {
        let text = format!("{head}\n{}", rows.join("\n"));
        if let Ok(trace) = read(text.as_bytes()) {
            let account = &trace.account;
            prop_assert_eq!(account.rows, account.kept + account.refused);
            prop_assert_eq!(account.kept, (trace.jobs.len() + trace.statistics.len()) as u64);
            prop_assert_eq!(account.refusals.values().map(|count| count.rows).sum::<u64>(), account.refused);
            prop_assert!(trace.jobs.iter().all(|job| job.run > 0 && job.gpus > 0 && job.run <= MAX_RUN));
        }
    }
}
