//! `ls`: the children of a node, or the whole subtree. `ls2` is its older form with the stat.

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::Failure;
use crate::shell::flags::{Given, own_switch, own_value, switch};
use crate::shell::paths;
use crate::shell::reply::Reply;
use crate::shell::session::Session;
use crate::shell::walk::{self, Depth};
use crate::shell::watches::ShellWatchKind;

pub(crate) const ENTRY: Entry = Entry {
    name: "ls",
    // The usage line of zkCli, which scripts may compare.
    syntax: "[-s] [-w] [-R] path",
    about: "Lists the children of a node",
    examples: &[
        "ls /",
        "ls -s /apps",
        "ls -R /apps",
        "ls -w /members",
        "ls --page 1000 --after job-7 /jobs",
        "ls --json /apps",
    ],
    origin: Origin::ZkCli,
    needs_session: true,
    flags: &[
        own_switch("l", "Linearizable: show everything that was answered to any client before"),
        own_value("page", "List at most so many children, in the order of their names"),
        own_value("after", "Begin behind this name"),
        switch("s", "Print znode stats additionally"),
        switch("w", "Watch for changes of the children"),
        switch("R", "List everything below, one path per line"),
    ],
    parse: |given| parse(given, given.has("s")),
};

pub(crate) const WITH_STAT: Entry = Entry {
    name: "ls2",
    syntax: "path [watch]",
    about: "Lists the children of a node with its stat; the older form of ls -s",
    examples: &["ls2 /apps"],
    origin: Origin::Unlisted,
    flags: &[],
    parse: |given| parse(given, true),
    ..ENTRY
};

struct Ls {
    path: String,
    with_stat: bool,
    watch: bool,
    linearizable: bool,
    recursive: bool,
    page: Option<Page>,
    old_form: bool,
}

/// A part of the children.
struct Page {
    size: usize,
    after: String,
}

fn parse(given: &Given, with_stat: bool) -> Parsed {
    let path = given.word(0).ok_or(Failure::Usage)?.to_owned();
    let old_form = given.words.len() > 1;
    let watch = given.has("w") || old_form;
    let (recursive, linearizable) = (given.has("R"), given.has("l"));
    let page = read_page(given)?;
    if page.is_some() && (recursive || watch) {
        // A watch comes with the last page only, and a subtree has no pages.
        return Err(Failure::Usage);
    }
    if recursive && linearizable {
        // A subtree is listed by many reads, which show no common state.
        return Err(Failure::Usage);
    }
    Ok(Box::new(Ls { path, with_stat, watch, linearizable, recursive, page, old_form }))
}

fn read_page(given: &Given) -> Result<Option<Page>, Failure> {
    let after = given.value("after");
    let Some(size) = given.value("page") else {
        return if after.is_some() { Err(Failure::Usage) } else { Ok(None) };
    };
    let size = size.parse().ok().filter(|&size| size > 0);
    let size = size.ok_or_else(|| Failure::text("the size of a page is a number from 1 on"))?;
    Ok(Some(Page { size, after: after.unwrap_or_default().to_owned() }))
}

impl Command for Ls {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            if self.old_form {
                session.note("'ls path [watch]' has been deprecated. Please use 'ls [-w] path' instead.");
            }
            paths::check(&self.path)?;
            match &self.page {
                Some(page) => self.list_page(session, page).await,
                None if self.recursive => self.list_all(session).await,
                None => self.list(session).await,
            }
        })
    }
}

impl Ls {
    async fn list(&self, session: &mut Session) -> Result<Reply, Failure> {
        let client = session.client()?;
        let children = client.children(&self.path);
        let children = if self.linearizable { children.linearizable() } else { children };
        let mut list = if self.watch {
            let (list, watcher) = children.watched().await?;
            session.watches.keep(ShellWatchKind::Children, &self.path, watcher);
            list
        } else {
            children.await?
        };
        list.names.sort_unstable();
        let stat = self.with_stat.then_some(list.stat);
        Ok(Reply::Children { path: self.path.clone(), names: list.names, stat })
    }

    async fn list_page(&self, session: &mut Session, page: &Page) -> Result<Reply, Failure> {
        let client = session.client()?;
        let children = client.children(&self.path);
        let children = if self.linearizable { children.linearizable() } else { children };
        let mut pages = children.pages(page.size).after(&page.after);
        let mut reply = Reply::Children { path: self.path.clone(), names: Vec::new(), stat: None };
        if let Some(page) = pages.next().await {
            let page = page?;
            let names = page.children.into_iter().map(|child| child.name).collect();
            let stat = self.with_stat.then_some(page.parent);
            reply = Reply::Children { path: self.path.clone(), names, stat };
        }
        Ok(reply)
    }

    async fn list_all(&self, session: &mut Session) -> Result<Reply, Failure> {
        let client = session.client()?;
        let tree = if self.watch {
            let (_, root) = client.get(&self.path).watched().await?;
            session.watches.keep(ShellWatchKind::Data, &self.path, root);
            let (tree, watchers) = walk::list_watched(&client, &self.path).await?;
            for (node, watcher) in watchers {
                session.watches.keep(ShellWatchKind::Children, &node, watcher);
            }
            tree
        } else {
            walk::list(&client, &self.path, Depth::All).await?
        };
        Ok(Reply::Paths(tree.children_then_descent()))
    }
}
