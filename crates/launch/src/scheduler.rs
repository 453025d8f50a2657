//! The hosts that a batch system gave this job: Slurm and PBS, by their variables.

use crate::hosts::Hosts;
use crate::setting::{LaunchSetting, LaunchSettingNames};
use paceline_base::{Error, Result};

/// Who gave the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// Slurm: `mpirun` starts processes through it.
    Slurm,
    /// PBS: a file of nodes.
    Pbs,
}

/// The scheduler that runs this job and the hosts it gave; none outside of one.
pub fn detect(
    variable: impl Fn(&str) -> Option<String>,
    read: impl Fn(&str) -> std::io::Result<String>,
    names: LaunchSettingNames,
) -> Result<Option<(Scheduler, Hosts)>> {
    if let (Some(job), Some(nodes)) = (variable("SLURM_JOB_ID"), variable("SLURM_JOB_NODELIST")) {
        let wrong = |what: &str| {
            let (hosts, processes) = (names.of(LaunchSetting::Hosts), names.of(LaunchSetting::Processes));
            Error::user(format!("Slurm job {job}: {what}; give {hosts} or {processes} instead"))
        };
        let hosts = expand(&nodes).ok_or_else(|| wrong(&format!("SLURM_JOB_NODELIST={nodes} is not understood")))?;
        let tasks = variable("SLURM_TASKS_PER_NODE").unwrap_or_else(|| format!("1(x{})", hosts.len()));
        let counts = repeat(&tasks)
            .filter(|c| c.len() == hosts.len())
            .ok_or_else(|| wrong(&format!("SLURM_TASKS_PER_NODE={tasks} does not fit {} nodes", hosts.len())))?;
        return Ok(Some((Scheduler::Slurm, Hosts::from_pairs(hosts.into_iter().zip(counts)))));
    }
    if let Some(file) = variable("PBS_NODEFILE") {
        let text = read(&file).map_err(|e| Error::io("read PBS_NODEFILE", file.as_ref(), &e))?;
        return Ok(Some((Scheduler::Pbs, Hosts::parse_file(&text, &file)?)));
    }
    Ok(None)
}

/// `n[01-03,7],login` as names.
fn expand(list: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let (mut depth, mut begin) = (0, 0);
    for (i, c) in list.char_indices().chain([(list.len(), ',')]) {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => {
                names.extend(expand_one(&list[begin..i])?);
                begin = i + 1;
            }
            _ => {}
        }
    }
    (depth == 0 && !names.is_empty()).then_some(names)
}

fn expand_one(item: &str) -> Option<Vec<String>> {
    let Some((before, rest)) = item.split_once('[') else {
        return (!item.is_empty()).then(|| vec![item.into()]);
    };
    let (ranges, after) = rest.split_once(']')?;
    let tails = if after.is_empty() { vec![String::new()] } else { expand_one(after)? };
    let mut names = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (low, high): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if high < low || high - low > 100_000 {
            return None;
        }
        let width = first.len(); // leading zeros stay
        for n in low..=high {
            names.extend(tails.iter().map(|tail| format!("{before}{n:0width$}{tail}")));
        }
    }
    Some(names)
}

/// `2(x3),1` as 2, 2, 2, 1.
fn repeat(text: &str) -> Option<Vec<usize>> {
    let mut counts = Vec::new();
    for item in text.split(',') {
        let (n, times) = match item.split_once("(x") {
            Some((n, times)) => (n, times.strip_suffix(')')?.parse().ok()?),
            None => (item, 1),
        };
        let n: usize = n.parse().ok().filter(|&n| n > 0)?;
        counts.extend(std::iter::repeat_n(n, Some(times).filter(|&t: &usize| t <= 100_000)?));
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variables: &[(&str, &str)], expected: Option<(Scheduler, &str)>) {
        let of = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string());
        let read = |_: &str| Ok("a\na\nb\n".to_string());
        let found = detect(of, read, LaunchSettingNames::default()).unwrap().map(|(s, h)| (s, h.to_string()));
        assert_eq!(found.as_ref().map(|(s, h)| (*s, h.as_str())), expected);
    }

    #[test]
    fn a_job_tells_its_hosts() {
        check(&[], None);
        check(&[("PBS_NODEFILE", "nodes")], Some((Scheduler::Pbs, "a:2,b:1")));
        let slurm = |nodes, tasks, hosts| {
            let all = [("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", nodes), ("SLURM_TASKS_PER_NODE", tasks)];
            check(&all, Some((Scheduler::Slurm, hosts)));
        };
        slurm("n0", "4", "n0:4");
        slurm("n[0-2]", "2(x2),1", "n0:2,n1:2,n2:1");
        slurm("n[08-10],m[1,3]x", "1(x5)", "n08:1,n09:1,n10:1,m1x:1,m3x:1");
        slurm("r[1-2]n[1-2]", "1(x4)", "r1n1:1,r1n2:1,r2n1:1,r2n2:1");
        check(&[("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "a,b")], Some((Scheduler::Slurm, "a:1,b:1")));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (nodes, tasks) in
            [("n[0-", "1"), ("n[2-1]", "1"), ("n[a]", "1"), ("", "1"), ("n0", "0"), ("n0", "1,1"), ("n0", "1(x")]
        {
            let of = |name: &str| match name {
                "SLURM_JOB_ID" => Some("7".to_string()),
                "SLURM_JOB_NODELIST" => Some(nodes.into()),
                "SLURM_TASKS_PER_NODE" => Some(tasks.into()),
                _ => None,
            };
            let e = detect(of, |_| Ok(String::new()), LaunchSettingNames::default()).unwrap_err();
            assert!(
                e.message().contains("Slurm job 7") && e.message().contains("give hosts or processes instead"),
                "{e}"
            );
        }
    }
}
