"""Markov networks with known answers: grids, pedigrees and other instances of the UAI competitions, and Bayesian networks."""

from __future__ import annotations

from posixpath import basename

from herdcli.datasets.registry import GITHUB, DatasetEntry, PublishedFile

# repository, commit and folder -> name here, bytes, SHA-256; the prefix merlin_ or pgmpy_ is not in the published name
FILES: dict[str, tuple[tuple[str, int, str], ...]] = {
    "dechterlab/uai-competitions/f13ae36507f4d4a91ae7b20d44ac11765b208450/UAI-2014/MAR": (
        ("Grids_11.uai", 10_798, "85f8d06c1fa4d68bf2b68d4fe06747cd3fc8090c87fab4c1cb811c523affb7c8"),
        ("Grids_11.uai.evid", 1, "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9"),
        ("Grids_13.uai", 11_166, "72d3d90d7e9e2681bb9c54539fd49ddc2e1001ec8b7dc9cc0cbaed5382b31fd2"),
        ("Grids_13.uai.evid", 1, "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9"),
        ("Segmentation_11.uai", 30_117, "de27f91b8428c6cc795cafc409b009a89d1d25e222ec6dfcef886e84ac63dd2f"),
        ("Segmentation_11.uai.evid", 1, "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9"),
        ("Segmentation_12.uai", 30_281, "78387830f1354dd593b9c13061e0a392a345b4ec6415753a57049c7769b1ea62"),
        ("Segmentation_12.uai.evid", 1, "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9"),
        ("Promedus_30.uai", 31_882, "70a246869092146a316494daa28a16fdb166a2803ed1e5aa8e9430188613efcc"),
        ("Promedus_30.uai.evid", 69, "c7712c9a7dff9a943b727d1b029ada01a0efbf35e0a75569ba45768c29251710"),
        ("ObjectDetection_11.uai", 137_302, "45b15e0600c423da89edfd51c7b303ffccd09b4a4188e0d4f496f35e2b806407"),
        ("ObjectDetection_11.uai.evid", 1, "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9"),
        ("Alchemy_11.uai", 49_197, "f9ffbe89502e69bdbfe94c387e17659c3c9aaa1f1afa8ec2946f23abcd1dffe0"),
        ("Alchemy_11.uai.evid", 1, "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9"),
        ("Grids_12.uai", 10_323, "830404ec0e6cb041276ff182b0a9a6c226b227fafa32dfdf5f67fbdca2f959ba"),
        ("Grids_12.uai.evid", 1, "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9"),
        ("Grids_15.uai", 42_162, "d15c024553bba3451d23c783b69889e4711168d258dc2df6ec7ab47569f2cb4c"),
        ("Grids_15.uai.evid", 1, "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9"),
        ("Segmentation_13.uai", 31_491, "c902793dceba386c201fc4f09afcc65548edac392cc6f8340d8655fda421b791"),
        ("Segmentation_13.uai.evid", 1, "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9"),
        ("Pedigree_11.uai", 16_479, "787afc6fa9c066e16339ae80491c60d6e26e53d7f7d6e19de1abd4ce1872a6d8"),
        ("Pedigree_11.uai.evid", 210, "4088a8c03d0983ced4cc243a6bf6b87a0fd8648b16e33257ed7fa236b76e92ac"),
        ("Promedus_24.uai", 20_145, "bb6af936aed4d38b8bd3ee35a5fb0d493ca4d355fdfce1b12905bf2868bbf4ce"),
        ("Promedus_24.uai.evid", 21, "b144bc14e4d8aea34b4fd4fffd148c8f8159b925f33033c0c5737f34ceeba49e"),
        ("DBN_11.uai", 20_616, "5066de020ee0ef135c997e0f6c1e5dffa5f7956c06ea6d0f6351ed9e92d4fb01"),
        ("DBN_11.uai.evid", 1, "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9"),
        ("CSP_11.uai", 20_949, "de60e1f23e64dcde493df9cec93a0b81f7d96eb9d5e228e2c839ea0ea939fed4"),
        ("CSP_11.uai.evid", 2, "9a271f2a916b0b6ee6cecb2426f0b3206ef074578be55d9bc94f6f3fe3ab86aa"),
        ("linkage_16.uai", 54_349, "187b4c33147222c1ab14dc3e423a2546747d2d3097dd7b1d4f985d22c2fede97"),
        ("linkage_16.uai.evid", 2, "9a271f2a916b0b6ee6cecb2426f0b3206ef074578be55d9bc94f6f3fe3ab86aa"),
    ),
    "dbtsai/libDAI/6df66a8ce7eb/tests": (
        ("alarm.fg", 16_956, "2f4241f20036406bf21dc4654f10473a9b88338b5228c277a485e4f700644830"),
        ("hoi1.fg", 665, "0fa7d8bf9a8de81e94850c0df4bf7d2642bd0a0e559e2020170a249e3fab57cd"),
        ("hoi2.fg", 841, "f02fc963a4589f9433e4ab9539d06d94f5d4540431ab8fb20a56631540d44fa1"),
        ("testfast.fg", 2_392, "d7d44145fa31ebcefab8498d25b1f31501fb6bd074e8d45c9d14c04076cd8c6c"),
        ("twofactors.fg", 135, "d031ef17a3e17c5a72aab17e4340ce8bf3ab0790cf45da68b382002288250824"),
        ("zeroes1.fg", 169, "f4d48ccee035581e79440eb76597e9be9ec2d8f166f56c27ccd5831d23e7e457"),
    ),
    "pgmpy/pgmpy/94105f10d417/pgmpy/utils/example_models": (
        ("asia.bif.gz", 310, "7d5e7b8549834824c1b05f367eb7860fa3fca3adaf3649f0c7be6035af197197"),
        ("cancer.bif.gz", 288, "dcfafbaadabcd1b8c9ec531e16721a19fc06829e980a3967d6345496ea081818"),
        ("earthquake.bif.gz", 271, "77a41f1d509cea15eb7caf9dba932907837149e7145a2cc9d6c95c80849e62b0"),
        ("survey.bif.gz", 368, "676e1fe97efec18b31d1a0a3bcd9b7d52985129c60a78b69172c99e82902ef96"),
        ("sachs.bif.gz", 1_916, "ed1830fbde101ed50cce3c7a3c8cbf1d2f5225531cf35ff09fb3cec0af101bce"),
        ("alarm.bif.gz", 1_832, "f5860caa7137b5817e0c4f169cce0f1451ce6c246b96f5ce4fb4a8167993be29"),
        ("child.bif.gz", 1_443, "2bc3236dcbdbf9c9f1bbdeb060aa93c0bdee389d23a549b7248b9d89ed8a980c"),
        ("insurance.bif.gz", 3_802, "92bcecd1b85387726af564bf1b50cd400ddbbea1b017303cc54d4654e50a8971"),
        ("hailfinder.bif.gz", 9_075, "efa122a88c4b550569ec821c7879bed9007f2b1e012e1ea52ea26069c7f26099"),
        ("win95pts.bif.gz", 4_261, "a4987cf8c09d3aa034504b03ea3e5dc01c57ca20228e2bd79ec9a861c3aef684"),
    ),
    "radum2275/merlin/dbafe0677866/data": (
        ("merlin_cancer.uai", 169, "fb1ceb0cec5a6bc745fe482eaa8ef2e29d5150fda28ab8b1c20947f950c9f732"),
        ("merlin_cancer.evid", 7, "664d49a5ef38eb403436a32cbba319e57b2a98075a0cd47dad3c5ac9b6ea5e99"),
        ("merlin_ChestClinic.uai", 307, "46467afee3d108ab7c586ec218d22f10dcba061cd6603b58fa59a82d3a375a9a"),
        ("merlin_ChestClinic.evid", 7, "a88044b13ff394428d865781ced228535fc68dbdc82e55e75e0f41516e3c8f72"),
        ("merlin_paskin.uai", 220, "ae853d8cf925ec9cdbb32ab3c1f1d3cbb09fc4722e0f8e9ea9f4e755dae46652"),
        ("merlin_paskin.evid", 7, "99a3cb172672157e27c8c5d0c0a52a80febee4464fde404decd17bab734470fe"),
        ("merlin_simple5.uai", 493, "48ec44c40ff51db54bbb855bb07829dd7a7e1e5b3464f7f2e2532fa43822da7d"),
        ("merlin_simple5.evid", 7, "99a3cb172672157e27c8c5d0c0a52a80febee4464fde404decd17bab734470fe"),
    ),
    "pgmpy/pgmpy/94105f10d417/pgmpy/tests/test_readwrite/testdata": (
        ("pgmpy_grid4x4.uai", 1_413, "9efaab3a7833bf9e39649e3544296aab7661e8b0ab1c79193a6c72d7b85e5682"),
    ),
}
PREFIXES = ("merlin_", "pgmpy_")


def _published_name(name: str) -> str:
    """Return the name under which a file is published."""
    prefix = next((each for each in PREFIXES if name.startswith(each)), "")
    return basename(name)[len(prefix) :]


ENTRY = DatasetEntry(
    name="networks",
    file="networks",
    rows=0,
    columns=0,
    size=650_000,
    description="Markov networks with exact answers: NAME.uai, .bif.gz or .fg, and NAME.uai.evid",
    figures="leagues of inference",
    licence="MIT (uai-competitions, pgmpy), BSD (libDAI), CC BY-SA 3.0 (bnlearn's repository), LICENSE of merlin",
    restricted=False,
    origin="github.com/dechterlab/uai-competitions, UAI-2014/MAR; bnlearn.com/bnrepository by way of pgmpy; libDAI; merlin",
    sources=tuple(
        PublishedFile(file=name, urls=(f"{GITHUB}/{place}/{_published_name(name)}",), size=size, sha256=digest)
        for place, files in FILES.items()
        for name, size, digest in files
    ),
)
