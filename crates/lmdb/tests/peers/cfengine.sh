#!/bin/sh
# CFEngine keeps its memory in databases: an agent runs several times, also four at once; cf-check
# looks at the databases, dumps them and makes them anew.
set -eu
export CFENGINE_TEST_OVERRIDE_WORKDIR="$PWD/work"
mkdir -p work/inputs work/state work/ppkeys work/outputs work/bin
cp "$(command -v cf-promises)" work/bin
cat > work/inputs/promises.cf << 'END'
body common control { bundlesequence => { "main" }; }
bundle agent main
{
  vars: "names" slist => { "a", "b", "c" };
  files: "$(sys.workdir)/file_$(names)" create => "true", changes => watched;
  commands: "/bin/echo ran" action => once;
}
body changes watched { hash => "sha256"; report_changes => "all"; update_hashes => "yes"; }
body action once { ifelapsed => "60"; }
END
chmod -R go= work
cf-key > /dev/null
agent() {
    cf-agent "$@" -f "$PWD/work/inputs/promises.cf" 2>&1 |
        sed "s,$PWD,.,g; s/'[A-Z][a-z]* [A-Z][a-z]* .*:.*:[^']*'/TIME/g"
}
agent -I -K
echo changed > work/file_b
touch -d @1000000000 work/file_b
agent -I -K
agent -I
for i in 1 2 3 4; do
    agent -K > "$i.out" &
done
wait
cat ./?.out
cf-check diagnose 2>&1 | sed "s,$PWD,.,g"
cf-check dump work/state/cf_changes.lmdb
cf-check repair --force 2>&1 | grep -v 'pid\|PID' | sed "s,$PWD,.,g; s/[0-9]\{6,\}/N/g" | sort
agent -I -K
cf-check dump work/state/cf_changes.lmdb
