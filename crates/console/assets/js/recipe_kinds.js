// Knows the layouts of Curator, Kazoo, go-zk and ZooKeeper's own recipes by the names of their nodes.
// @ts-check

const UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
const HEX = "[0-9a-f]{32}";
const PROTECTED = `_c_(${UUID}|${HEX})-`;
const SEQUENCE_MAX = 2147483647;

/** The order matters: the first pattern that fits a child decides. */
const PATTERNS = [
  { kind: "curator-read-write", test: new RegExp(`^${PROTECTED}.*__(READ|WRIT)__\\d{10}$`) },
  { kind: "curator-semaphore", test: new RegExp(`^${PROTECTED}lease-\\d{10}$`) },
  { kind: "curator-latch", test: new RegExp(`^${PROTECTED}latch-\\d{10}$`) },
  { kind: "curator-lock", test: new RegExp(`^${PROTECTED}lock-\\d{10}$`) },
  { kind: "kazoo-read-write", test: /__rlock__\d{10}$/ },
  { kind: "kazoo-lock", test: new RegExp(`^${HEX}__lock__\\d{10}$`) },
  { kind: "c-lock", test: /^x-[0-9a-f]+-\d{10}$/ },
  { kind: "read-write", test: /^(read|write)-\d{10}$/ },
  { kind: "lock", test: /^(lock|mutex)[-_]\d{10}$/ },
  { kind: "election", test: /^(n|guid-n|candidate|election|leader|member)[-_]\d{10}$/ },
  { kind: "delay-queue", test: /^queue-\|[0-9A-F]{8,16}\|\d{10}$/ },
  { kind: "priority-queue", test: /^(entry-\d{3}-|queue-[01][0-9A-F]{8})\d{10}$/ },
  { kind: "queue", test: /^(queue|qn|item|entry|element)-(\|.*\|)?\d{10}$/ },
];

/** Kinds whose first children hold something that the others wait for. */
const QUEUES = new Set(["curator-read-write", "curator-lock", "curator-latch", "kazoo-read-write", "kazoo-lock", "c-lock", "read-write", "lock", "election", "semaphore-guard", "sequence"]);
/** Kinds whose children are items, and those of them whose turn the whole name decides. */
const ITEMS = new Set(["queue", "priority-queue", "delay-queue"]);
const BY_NAME = new Set(["priority-queue", "delay-queue"]);
const SEMAPHORES = new Set(["curator-semaphore", "kazoo-semaphore"]);

export const KINDS = [...PATTERNS.map((pattern) => pattern.kind), "kazoo-semaphore", "semaphore-guard", "double-barrier", "discovery", "group", "sequence"];

const IDENTIFIER = new RegExp(`${UUID}$|^${HEX}$`, "i");

/** The number at the end of a sequential name, which a random identifier has not. Behind the largest number a parent counts on with negative ones. */
export function sequenceOf(/** @type {string} */ name) {
  const digits = /(\d{10})$/.exec(name);
  if (!digits || IDENTIFIER.test(name)) return null;
  const number = Number(digits[1]);
  return number > SEQUENCE_MAX ? -number : number;
}

/** A name with its long random part cut; links still tell the whole one. */
export function shortName(/** @type {string} */ name) {
  return name.replace(new RegExp(`${UUID}|${HEX}`), (id) => `${id.slice(0, 4)}…${id.slice(-4)}`);
}

/**
 * The kind of a parent by its children and some data; the two data are read only if they decide.
 * @param {{path: string, children: {name: string, lifetime?: string}[], firstData: () => Promise<string | null>, parentData: () => Promise<string | null>}} parent
 */
export async function kindOf({ path, children, firstData, parentData }) {
  const pattern = PATTERNS.find(({ test }) => children.some((child) => test.test(child.name)));
  // Kazoo's semaphore guards its permits by a lock beside them.
  if (pattern?.kind === "kazoo-lock" && path.endsWith("-__lock__")) return "semaphore-guard";
  if (pattern) return pattern.kind;
  if (children.some((child) => sequenceOf(child.name) !== null)) {
    return children.every((child) => child.lifetime !== "ephemeral") ? "queue" : "sequence";
  }
  const members = children.filter((child) => child.name !== "ready");
  const areAll = (/** @type {string} */ form) => members.every((child) => new RegExp(`^${form}$`).test(child.name));
  const data = await firstData();
  if (data && /"(address|host|port|serviceEndpoint|uriSpec)"|^[\w.-]+:\d{2,5}$/.test(data)) return "discovery";
  if (!areAll(`(${UUID}|${HEX})`)) return "group";
  // Kazoo's semaphore keeps the number of its permits in the parent.
  if (areAll(HEX) && /^\d{1,9}$/.test((await parentData()) ?? "")) return "kazoo-semaphore";
  return "double-barrier";
}

/** Curator keeps a semaphore's permits in `leases` and the lock that guards them in `locks`. */
export function nameGuards(/** @type {{path: string, kind: string}[]} */ recipes) {
  const permits = new Set(recipes.filter(({ kind }) => kind === "curator-semaphore").map(({ path }) => path.replace(/\/leases$/, "/locks")));
  for (const recipe of recipes) if (recipe.kind === "curator-lock" && permits.has(recipe.path)) recipe.kind = "semaphore-guard";
}

function isWriter(/** @type {string} */ name) {
  return /__WRIT__|__lock__|^write-/.test(name);
}

/** By number; a reader that was a writer has the number of its writer, and came later. */
function bySequence(/** @type {any} */ a, /** @type {any} */ b) {
  const [first, second] = [sequenceOf(a.name) ?? 0, sequenceOf(b.name) ?? 0];
  if (first !== second || !a.stat || !b.stat) return first - second;
  return BigInt(a.stat.czxid) < BigInt(b.stat.czxid) ? -1 : 1;
}

/**
 * Children in the order of their turns, with their part.
 * @param {string} kind @param {any[]} children @param {boolean} isReady whether a double barrier is complete
 * @returns {{child: any, part: "holds" | "waits" | "member" | "item"}[]}
 */
export function turns(kind, children, isReady) {
  if (BY_NAME.has(kind)) return children.map((child) => ({ child, part: child.lifetime === "ephemeral" ? "holds" : "item" }));
  const sorted = [...children].sort(bySequence);
  // An ephemeral node with the name of an item is the lock of its consumer.
  if (ITEMS.has(kind)) return sorted.map((child) => ({ child, part: child.lifetime === "ephemeral" ? "holds" : "item" }));
  if (SEMAPHORES.has(kind)) return sorted.map((child) => ({ child, part: "holds" }));
  if (kind === "double-barrier") return sorted.map((child) => ({ child, part: isReady ? "member" : "waits" }));
  if (!QUEUES.has(kind)) return sorted.map((child) => ({ child, part: "member" }));
  const sharing = kind.includes("read-write");
  const firstWriter = sharing ? sorted.findIndex((child) => isWriter(child.name)) : 0;
  return sorted.map((child, index) => {
    const holds = index === 0 || (sharing && (firstWriter < 0 || index < firstWriter));
    return { child, part: holds ? "holds" : "waits" };
  });
}

/** Whether the first place means that something is held. */
export function isQueue(/** @type {string} */ kind) {
  return QUEUES.has(kind);
}

/** Whether the whole name decides the turn. */
export function isByName(/** @type {string} */ kind) {
  return BY_NAME.has(kind);
}
