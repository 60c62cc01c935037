#!/bin/sh
# Keeps scripts that call zkServer.sh working: finds the zebu binary and hands the command over to it.
#
# The files that it reads for variables are written for bash, as ZooKeeper's own scripts are: where bash is there, it
# runs this script.
#
# usage: zkServer.sh [--config <conf-dir>] {start|start-foreground|stop|version|restart|status|print-cmd} [config]

if [ -z "$BASH_VERSION" ] && [ -z "$ZEBU_WITHOUT_BASH" ] && command -v bash >/dev/null 2>&1; then
    exec bash "$0" "$@"
fi

script=$0
while [ -L "$script" ]; do
    target=$(readlink "$script")
    case $target in
        /*) script=$target ;;
        *) script=$(dirname -- "$script")/$target ;;
    esac
done
here=$(cd -- "$(dirname -- "$script")" && pwd)

if [ -x "$here/zebu" ]; then
    zebu=$here/zebu
elif [ -x "$here/../target/release/zebu" ]; then
    zebu=$here/../target/release/zebu
elif zebu=$(command -v zebu); then
    :
else
    echo "zkServer.sh: the zebu binary is neither beside this script nor in PATH" >&2
    exit 1
fi

if [ "$1" = "--config" ]; then
    if [ $# -lt 2 ] || [ ! -d "$2" ]; then
        echo "zkServer.sh: --config needs an existing directory" >&2
        exit 1
    fi
    ZOOCFGDIR=$2
    shift 2
fi
if [ -z "$ZOOCFGDIR" ]; then
    if [ -d "$here/../conf" ]; then
        ZOOCFGDIR=$here/../conf
    elif [ -d "$here/../etc/zookeeper" ]; then
        ZOOCFGDIR=$here/../etc/zookeeper
    fi
fi

# These files set variables such as ZOO_LOG_DIR and SERVER_JVMFLAGS; everything they set is for zebu.
set -a
[ -n "$ZOOCFGDIR" ] && [ -f "$ZOOCFGDIR/zookeeper-env.sh" ] && . "$ZOOCFGDIR/zookeeper-env.sh"
[ -n "$ZOOCFGDIR" ] && [ -f "$ZOOCFGDIR/java.env" ] && . "$ZOOCFGDIR/java.env"
[ -n "$ZOOCFGDIR" ] && export ZOOCFGDIR
: "${ZOO_LOG_DIR:=$here/../logs}"
export ZOO_LOG_DIR
set +a

command=$1
[ $# -gt 0 ] && shift
case $command in
    start | stop | restart | status) exec "$zebu" "$command" "$@" ;;
    start-foreground) exec "$zebu" start --foreground "$@" ;;
    print-cmd) exec "$zebu" start --print-command "$@" ;;
    version) exec "$zebu" version ;;
    *)
        echo "Usage: $0 [--config <conf-dir>] {start|start-foreground|stop|version|restart|status|print-cmd} [config]" >&2
        ;;
esac
