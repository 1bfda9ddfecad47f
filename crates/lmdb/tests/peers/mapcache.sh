# MapCache seeds a cache of tiles in a store, counts them and deletes some again.
set -eu
cat > mapcache.xml <<XML
<mapcache>
  <source name="blank" type="dummy"/>
  <cache name="tiles" type="lmdb"><base>$PWD/testdb</base></cache>
  <tileset name="blank">
    <source>blank</source><cache>tiles</cache><grid>WGS84</grid>
    <format>PNG</format><metatile>1 1</metatile>
  </tileset>
  <service type="wms" enabled="true"/>
  <log_level>debug</log_level>
</mapcache>
XML
seed() {
    # How far it was at what time is not to be compared.
    mapcache_seed -c mapcache.xml -t blank -g WGS84 -n 1 -b "$@" 2>&1 |
        sed -e '/now at/d' -e 's/^.*(\([0-9]* total\)/\1/' \
        -e 's/ in [0-9.]* seconds.*//'
}
seed -z 0,3
seed -z 0,3
seed -z 0,3 -f
seed -m delete -z 2,2
seed -z 0,3
