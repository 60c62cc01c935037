//! `zebu top`: asks servers with the words `topp` and `topn`, joins their answers and shows them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use zebu_client::TlsConnector;

use super::{Form, Looks, align, now, refresh};
use crate::console::{print_line, printable};
use crate::protection::{self, WordLimits};

/// How long a server may take to answer `topp`.
const HOT_LIMITS: WordLimits = WordLimits { time: Duration::from_secs(5), answer_bytes: 1 << 20 };

/// The same for `topn`, which walks over all nodes.
const NODES_LIMITS: WordLimits = WordLimits { time: Duration::from_secs(90), answer_bytes: 1 << 20 };

/// The order of the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TopMeasure {
    /// A measure of `topp`, per second.
    Rate(&'static str),
    /// A measure of `topn`.
    Nodes(&'static str),
}

impl TopMeasure {
    fn name(self) -> &'static str {
        match self {
            TopMeasure::Rate(name) | TopMeasure::Nodes(name) => name,
        }
    }
}

/// What to show, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopOptions {
    pub(crate) measure: TopMeasure,
    pub(crate) limit: usize,
    pub(crate) looks: Looks,
    pub(crate) form: Form,
}

/// An amount and its greatest error.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Amount {
    value: f64,
    error: f64,
}

/// The lists of one or several servers: the amounts by subject and key.
#[derive(Clone, Debug, Default, PartialEq)]
struct TopLists {
    subjects: BTreeMap<String, BTreeMap<String, Amount>>,
    /// Remarks about the extent of the lists.
    remarks: Vec<String>,
}

/// Asks and shows, until it is stopped. True if every server answered at the last look.
pub(crate) fn run(addresses: &[String], tls: Option<&TlsConnector>, options: TopOptions) -> bool {
    options.looks.repeat(|| {
        let answers = match options.measure {
            TopMeasure::Rate(_) => ask_all(addresses, tls, options.measure),
            TopMeasure::Nodes(_) => ask_first(addresses, tls, options.measure),
        };
        show(&answers, options);
        answers.iter().all(|(_, answer)| answer.is_ok())
    })
}

type Answers = Vec<(String, Result<TopLists, String>)>;

/// Each server counts the requests of its own clients.
fn ask_all(addresses: &[String], tls: Option<&TlsConnector>, measure: TopMeasure) -> Answers {
    let answers = refresh::ask_each(addresses, |address| ask(address, tls, measure));
    addresses.iter().cloned().zip(answers).collect()
}

/// All servers have the same nodes, so the first answer is enough.
fn ask_first(addresses: &[String], tls: Option<&TlsConnector>, measure: TopMeasure) -> Answers {
    let mut failed = Vec::new();
    for address in addresses {
        let answer = ask(address, tls, measure);
        if answer.is_ok() {
            return vec![(address.clone(), answer)];
        }
        failed.push((address.clone(), answer));
    }
    failed
}

fn ask(address: &str, tls: Option<&TlsConnector>, measure: TopMeasure) -> Result<TopLists, String> {
    let (word, limits) = match measure {
        TopMeasure::Rate(_) => ("topp", HOT_LIMITS),
        TopMeasure::Nodes(_) => ("topn", NODES_LIMITS),
    };
    let text = protection::ask(address, word, tls, limits).map_err(|error| error.to_string())?;
    let text = printable(&text.replace('\r', ""));
    match measure {
        TopMeasure::Rate(name) => parse_rates(&text, name),
        TopMeasure::Nodes(name) => parse_nodes(&text, name),
    }
}

fn not_answered(text: &str) -> String {
    text.lines().next().unwrap_or("it closed the connection").trim().to_owned()
}

fn parse_rates(text: &str, measure: &str) -> Result<TopLists, String> {
    let mut lines = text.lines();
    let sampling = lines.next().and_then(|line| line.strip_prefix("sampling\t"));
    let sampling = sampling.ok_or_else(|| not_answered(text))?;
    if sampling == "0" {
        return Err("zebu.top.sampling is 0, so nothing is known".to_owned());
    }
    let mut lists = TopLists::default();
    for line in lines {
        let mut fields = line.splitn(5, '\t');
        let (Some(name), Some(subject), Some(value), Some(error), Some(key)) =
            (fields.next(), fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if let (true, Ok(value), Ok(error)) = (name == measure, value.parse(), error.parse()) {
            let keys = lists.subjects.entry(subject.to_owned()).or_default();
            keys.insert(key.to_owned(), Amount { value, error });
        }
    }
    Ok(lists)
}

fn parse_nodes(text: &str, measure: &str) -> Result<TopLists, String> {
    let mut lines = text.lines();
    let head = lines.next().and_then(|line| line.strip_prefix("nodes\t"));
    let (visited, extent) = head.and_then(|head| head.split_once('\t')).ok_or_else(|| not_answered(text))?;
    let mut lists = TopLists::default();
    if extent != "complete" {
        lists.remarks.push(format!("only {visited} nodes were visited"));
    }
    let keys = lists.subjects.entry("path".to_owned()).or_default();
    for line in lines {
        let mut fields = line.splitn(3, '\t');
        if let (Some(name), Some(Ok(value)), Some(path)) =
            (fields.next(), fields.next().map(str::parse), fields.next())
            && name == measure
        {
            keys.insert(path.to_owned(), Amount { value, error: 0.0 });
        }
    }
    Ok(lists)
}

/// Adds the amounts of all servers.
fn join(answers: &Answers) -> TopLists {
    let mut joined = TopLists::default();
    for lists in answers.iter().filter_map(|(_, answer)| answer.as_ref().ok()) {
        joined.remarks.extend(lists.remarks.iter().cloned());
        for (subject, keys) in &lists.subjects {
            let sums = joined.subjects.entry(subject.clone()).or_default();
            for (key, amount) in keys {
                let sum = sums.entry(key.clone()).or_default();
                sum.value += amount.value;
                sum.error += amount.error;
            }
        }
    }
    joined
}

/// The heaviest keys, heaviest first.
fn heaviest(keys: &BTreeMap<String, Amount>, limit: usize) -> Vec<(&str, Amount)> {
    let mut list: Vec<_> = keys.iter().map(|(key, amount)| (key.as_str(), *amount)).collect();
    list.sort_by(|(_, left), (_, right)| right.value.total_cmp(&left.value));
    list.truncate(limit);
    list
}

fn show(answers: &Answers, options: TopOptions) {
    let time = now();
    match options.form {
        Form::Json => print_line(as_json(answers, options, &time).to_string()),
        Form::Table => options.looks.show_table(&as_table(answers, options), &time),
    }
}

fn as_table(answers: &Answers, options: TopOptions) -> String {
    let joined = join(answers);
    let (measure, is_rate) = (options.measure.name(), matches!(options.measure, TopMeasure::Rate(_)));
    let unit = if is_rate { "/S" } else { "" };
    let mut text = String::new();
    for (subject, keys) in &joined.subjects {
        let mut lines = vec![vec![format!("{}{unit}", measure.to_uppercase()), subject.to_uppercase()]];
        for (key, amount) in heaviest(keys, options.limit) {
            let value = if is_rate { format!("{:.1}", amount.value) } else { format!("{}", amount.value) };
            lines.push(vec![value, key.to_owned()]);
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&align(&lines, 2));
    }
    if text.is_empty() {
        text.push_str("no requests of this kind were sampled\n");
    }
    for remark in &joined.remarks {
        text.push_str(&format!("\n{remark}\n"));
    }
    for (address, answer) in answers {
        if let Err(reason) = answer {
            text.push_str(&format!("\n{address}: no answer: {reason}\n"));
        }
    }
    text
}

fn as_json(answers: &Answers, options: TopOptions, time: &str) -> Value {
    let joined = join(answers);
    let lists: serde_json::Map<String, Value> = joined
        .subjects
        .iter()
        .map(|(subject, keys)| {
            let entries = heaviest(keys, options.limit).into_iter();
            let entries = entries.map(|(key, amount)| match options.measure {
                TopMeasure::Rate(_) => {
                    json!({ "key": key, "per_second": amount.value, "error_per_second": amount.error })
                }
                TopMeasure::Nodes(_) => json!({ "key": key, "amount": amount.value }),
            });
            (subject.clone(), Value::Array(entries.collect()))
        })
        .collect();
    let servers: Vec<Value> = answers
        .iter()
        .map(|(address, answer)| json!({ "server": address, "error": answer.as_ref().err() }))
        .collect();
    json!({
        "time": time,
        "by": options.measure.name(),
        "servers": servers,
        "lists": lists,
        "remarks": joined.remarks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "sampling\t64\nreads\tpath\t12.5\t0.5\t/a\nreads\tpath\t3.0\t0.0\t/b\n\
        reads\tsubtree\t15.5\t0.0\t/\nwrites\tpath\t1.0\t0.0\t/w\n";
    const OTHER: &str = "sampling\t64\nreads\tpath\t20.0\t0.0\t/b\n";

    fn answers() -> Answers {
        vec![
            ("a:1".to_owned(), parse_rates(ONE, "reads")),
            ("b:1".to_owned(), parse_rates(OTHER, "reads")),
            (
                "c:1".to_owned(),
                parse_rates("topp is not executed because it is not in the whitelist.\n", "reads"),
            ),
        ]
    }

    fn options() -> TopOptions {
        TopOptions { measure: TopMeasure::Rate("reads"), limit: 5, looks: Looks::Once, form: Form::Table }
    }

    #[test]
    fn the_amounts_of_servers_add_up() {
        let joined = join(&answers());
        let paths = heaviest(&joined.subjects["path"], 5);
        let found: Vec<_> = paths.iter().map(|(key, amount)| (*key, amount.value, amount.error)).collect();
        assert_eq!(found, [("/b", 23.0, 0.0), ("/a", 12.5, 0.5)]);
        assert_eq!(heaviest(&joined.subjects["path"], 1).len(), 1);
    }

    #[test]
    fn tables_and_objects() {
        let text = as_table(&answers(), options());
        assert_eq!(
            text,
            "READS/S  PATH\n23.0     /b\n12.5     /a\n\nREADS/S  SUBTREE\n15.5     /\n\n\
             c:1: no answer: topp is not executed because it is not in the whitelist.\n"
        );
        let value = as_json(&answers(), options(), "now");
        assert_eq!(value["lists"]["path"][0]["key"], "/b");
        assert_eq!(value["servers"][0]["error"], Value::Null);
    }

    #[test]
    fn largest_nodes_say_when_they_are_partial() {
        let text = "nodes\t7\tpartial\nsize\t100\t/big node\nchildren\t5\t/\n";
        let lists = parse_nodes(text, "size").unwrap();
        assert_eq!(
            heaviest(&lists.subjects["path"], 5),
            [("/big node", Amount { value: 100.0, error: 0.0 })]
        );
        assert_eq!(lists.remarks, ["only 7 nodes were visited"]);
        assert_eq!(parse_nodes("", "size").unwrap_err(), "it closed the connection");
        assert!(parse_rates("sampling\t0\n", "reads").unwrap_err().contains("zebu.top.sampling"));
    }
}
