# Fills, asks and empties databases through LMDB_File and prints what it finds.
use strict;
use warnings;
use LMDB_File qw(:flags :cursor_op :error);
use Digest::SHA qw(sha256_hex);

mkdir 'env';
my $env = LMDB::Env->new('env', { mapsize => 1 << 28, maxdbs => 4 });
my $txn = $env->BeginTxn();
my $db = $txn->OpenDB('dups', MDB_CREATE | MDB_DUPSORT);
for my $i (0 .. 14999) {
    $db->put(sprintf('key %05d', $i * 7 % 3000), sprintf('value %06d', $i * 31 % 15000));
}
print $db->stat->{entries}, "\n";
my ($cursor, $key, $data, $all) = ($db->Cursor, '', '', '');
$cursor->get($key, $data, MDB_FIRST);
do { $all .= "$key=$data;" } while (eval { $cursor->get($key, $data, MDB_NEXT); 1 });
print sha256_hex($all), "\n";
$key = 'key 01234';
$cursor->get($key, $data, MDB_SET_RANGE);
$cursor->count(my $count);
print "$key $data $count\n";
$cursor->del(MDB_NODUPDATA);
print $db->stat->{entries}, "\n";
undef $cursor;
$txn->commit;

$txn = $env->BeginTxn();
my $plain = $txn->OpenDB('plain', MDB_CREATE);
$plain->put("name $_", $_ * $_) for 1 .. 100;
$plain->del('name 50');
print join(',', map { $plain->get("name $_") } 1 .. 5), "\n";
print defined $plain->get('name 50') ? 'there' : 'gone', "\n";
print $plain->stat->{entries}, "\n";
$txn->commit;
