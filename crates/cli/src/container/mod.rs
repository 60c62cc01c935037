//! What a container's variables mean: the lines of zoo.cfg, the id, the JAAS file and the properties of the
//! server. It decides only; `commands/container.rs` reads and writes files and starts the server.
//!
//! Three images have their own variables: the official one, Bitnami's and Confluent's. Each has a file here.

mod bitnami;
mod confluent;
mod jaas;
mod official;
mod style;
mod variables;

use std::path::PathBuf;

use zebu_server::config::Environment;

pub(crate) use style::ContainerStyle;
use variables::Variables;

/// Chooses the image whose variables are meant: official, bitnami or confluent.
pub(crate) const STYLE_VARIABLE: &str = "ZEBU_CONTAINER_STYLE";
/// The id of the first pod of a StatefulSet: `zk-0` gets this id, `zk-1` the next one.
pub(crate) const FIRST_ID_VARIABLE: &str = "ZEBU_FIRST_ID";

/// Files that variables with the ending `_FILE` name, and the name of the host.
pub(crate) trait ContainerSystem {
    /// The text of a file.
    ///
    /// # Errors
    /// Says why it cannot be read.
    fn read(&self, path: &str) -> Result<String, String>;

    /// The name of the host; in Kubernetes, that of the pod.
    fn host_name(&self) -> String;
}

/// Everything that the variables ask for.
#[derive(Debug, PartialEq)]
pub(crate) struct ContainerPlan {
    pub(crate) style: ContainerStyle,
    /// The directory of zoo.cfg.
    pub(crate) conf_dir: PathBuf,
    pub(crate) data_dir: PathBuf,
    /// Directories that must exist, besides `conf_dir` and `data_dir`.
    pub(crate) directories: Vec<PathBuf>,
    /// Lines of zoo.cfg, unless there is one.
    pub(crate) lines: Vec<ConfigLine>,
    /// The text of `myid`, unless there is one; `None` if nothing needs it.
    pub(crate) my_id: Option<String>,
    /// The text of the JAAS file.
    pub(crate) jaas: Option<String>,
    /// Java properties, as `name=value`.
    pub(crate) properties: Vec<String>,
    /// The log filter, where the variables name a level.
    pub(crate) log_filter: Option<String>,
    pub(crate) warnings: Vec<String>,
}

/// One line of zoo.cfg.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigLine {
    pub(crate) text: String,
    /// Whether the line holds a password, which no log may show.
    pub(crate) is_secret: bool,
}

impl ConfigLine {
    /// The line for the log of the container.
    pub(crate) fn shown(&self) -> String {
        match self.text.split_once('=') {
            Some((key, _)) if self.is_secret => format!("{key}=***"),
            _ => self.text.clone(),
        }
    }
}

/// The name of the JAAS file in the configuration directory.
pub(crate) const JAAS_FILE: &str = "zoo_jaas.conf";

/// Reads the variables.
///
/// # Errors
/// All that is wrong with them, one text each.
pub(crate) fn plan(
    environment: &Environment,
    system: &dyn ContainerSystem,
) -> Result<ContainerPlan, Vec<String>> {
    let style = style::choose(environment).map_err(|error| vec![error])?;
    let mut variables = Variables::read(environment, style, system);
    let planned = match style {
        ContainerStyle::Official => official::plan(&mut variables),
        ContainerStyle::Bitnami => bitnami::plan(&mut variables),
        ContainerStyle::Confluent => confluent::plan(&mut variables),
    };
    let id = pod_id(environment, system, &mut variables);
    variables.finish(planned).map(|mut planned| {
        planned.warnings.extend(style::misunderstood(environment, style));
        if id.is_some() {
            planned.my_id = id;
        }
        planned
    })
}

/// The id by the number of the pod, if the variable asks for that.
fn pod_id(
    environment: &Environment,
    system: &dyn ContainerSystem,
    variables: &mut Variables<'_>,
) -> Option<String> {
    let first = environment.get(FIRST_ID_VARIABLE).filter(|first| !first.is_empty())?;
    let Ok(first) = first.parse::<u32>() else {
        variables.error(format!("{FIRST_ID_VARIABLE}=\"{first}\" is not a number"));
        return None;
    };
    let host = system.host_name();
    let number =
        host.split('.').next().and_then(|pod| pod.rsplit_once('-')).map(|(_, number)| number.parse::<u32>());
    match number {
        Some(Ok(number)) => Some((u64::from(first) + u64::from(number)).to_string()),
        Some(Err(_)) | None => {
            variables.error(format!(
                "{FIRST_ID_VARIABLE} is set, but the host name \"{host}\" does not end with a number as those of \
                 a StatefulSet do"
            ));
            None
        }
    }
}

#[cfg(test)]
mod tests;
