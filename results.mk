# What the papers show: `make results` (hours) into $(RESULTS), `make quick` (minutes: fewer runs, smaller settings) into $(QUICK).
#
# A stage is one script.  It works in a folder of its own, $(RESULTS)/work/STAGE, where an interrupted run goes on; what it makes goes to its
# place when it has ended.  So stages run side by side (make -j2 results), and one that is killed leaves no half file.  Of a stage:
#   .run      the script and what comes before its folder        .full, .quick   its arguments after the folder
#   .makes    its files; .quick-makes: those of `make quick`, where they are fewer
#   .data     data sets that it reads from $(HERD_DATA), .quick-data likewise
#   .with, .needs   modules in scripts/ that it imports, files of other stages that it reads

QUICK := $(RESULTS)/quick

STAGES += herding-fig1
herding-fig1.run := papers/fig1_tipi.py
herding-fig1.makes := herding-fig1.csv herding-fig1.png

STAGES += herding-fig2
herding-fig2.run := papers/fig2_digits.py
herding-fig2.data := usps_all.h5
herding-fig2.makes := herding-fig2.csv herding-fig2.png
herding-fig2.quick := --seeds 1 --hidden 50 --iterations 500

STAGES += herding-fig3
herding-fig3.run := papers/fig3_usps.py
herding-fig3.data := usps_all.h5
herding-fig3.makes := herding-fig3.csv herding-fig3.png
herding-fig3.quick := --splits 1 --iterations 400 --columns H2,SH2,CD1

STAGES += herding-claims
herding-claims.run := papers/table_herding_claims.py
herding-claims.with := papers/fig3_usps.py
herding-claims.data := usps_all.h5
herding-claims.needs := herding-fig3.csv
herding-claims.makes := herding-claims.csv
herding-claims.full := --cells $(RESULTS)/work/herding-fig3
herding-claims.quick := --splits 1 --iterations 200 --only representation --only entropy --units 5,30

BACH := 3 4 5 6 7
bach-fig3.quick := --count 60 --seeds 3
bach-fig4.quick := --count 200
bach-fig5.quick := --count 500
bach-fig6.quick := --count 4000
bach-fig7.quick := --count 4000
define bach
STAGES += bach-fig$(1)
bach-fig$(1).run := papers/bach_figures.py
bach-fig$(1).makes := bach-fig$(1).csv bach-fig$(1).png
bach-fig$(1).full := --figure $(1)
bach-fig$(1).quick += --figure $(1)
endef
$(foreach number,$(BACH),$(eval $(call bach,$(number))))

STAGES += nherd
nherd.run := papers/paper_nherd.py
nherd.with := papers/nherd_tasks.py
nherd.data := phoneme.h5 spambase.h5 r8_bow.h5 newsgroups20_bow.h5 sentiment4_bow.h5 usps_all.h5 mnist.h5
nherd.makes := nherd-tuned.csv nherd-equal.csv nherd-phoneme.csv nherd-many.csv
nherd.quick-data := phoneme.h5 spambase.h5 r8_bow.h5
nherd.quick := --only phoneme --only spambase --only reuters
nherd.quick-makes := nherd-tuned.csv nherd-equal.csv nherd-phoneme.csv

STAGES += nherd-fig2
nherd-fig2.run := papers/fig_nherd.py
nherd-fig2.makes := nherd-fig2.csv nherd-fig2.png
nherd-fig2.full := --figure 2
nherd-fig2.quick := --figure 2

STAGES += nherd-fig4-5
nherd-fig4-5.run := papers/fig_nherd.py
nherd-fig4-5.needs := nherd-tuned.csv nherd-equal.csv nherd-phoneme.csv
nherd-fig4-5.makes := nherd-fig4.csv nherd-fig4.png nherd-fig5.png
nherd-fig4-5.full := --figure 4 --figure 5 --tables $(RESULTS)
nherd-fig4-5.quick := --figure 4 --figure 5 --tables $(QUICK)

STAGES += faces
faces.run := papers/fig_faces.py
faces.data := orl.h5 yale64.h5
faces.makes := $(addprefix faces/,errors.csv summary.csv fields.csv $(foreach number,4 5 6 7 9 10 11 12,3_$(number).png))
faces.quick := --data orl-even --partitions 1

STAGES += ica-separation
ica-separation.run := papers/fig_ica_separation.py
ica-separation.data := music16_long.h5
ica-separation.makes := ica-separation.csv ica-fig4-5.png ica-fig4-6.png
ica-separation.quick := --runs 1

STAGES += ica-features
ica-features.run := papers/fig_ica_features.py
ica-features.data := speech_segments.h5 patches16.h5 natural13.h5 usps_all.h5 olivetti.h5
speech := ica-speech-filters.png ica-speech-spectra.png ica-speech-tiling.png
patches8 := ica-patches8-filters.png ica-patches8-tiling.png
patches := ica-patches-filters.png ica-patches-gabors.png ica-patches-tiling.png
digits := ica-digits-filters.png ica-digits-gabors.png
map := ica-map-filters.png ica-map-neighbours.csv
features := ica-faces-eigenfaces.png ica-faces-features.png ica-faces-pixels.png
ica-features.makes := ica-features.csv $(speech) $(patches8) $(map) $(patches) $(digits) $(features)
ica-features.quick-data := speech_segments.h5 natural13.h5
ica-features.quick := --fraction 0.1 --only speech --only patches8
ica-features.quick-makes := ica-features.csv $(speech) $(patches8)

STAGES += ups-fig55
ups-fig55.run := papers/fig_ups.py
ups-fig55.makes := ups-fig55.csv ups-fig55.png
ups-fig55.full := --figure 5.5
ups-fig55.quick := --figure 5.5 --networks 10

STAGES += ups-fig56
ups-fig56.run := papers/fig_ups.py
ups-fig56.makes := ups-fig56.csv ups-fig56.png
ups-fig56.full := --figure 5.6
ups-fig56.quick := --figure 5.6 --cell 1 --sigma-w 1 --sigma-w 10

STAGES += mrf
mrf.run := papers/fig_mrf.py
mrf.data := eights8x8.h5
mrf.makes := mrf-fig6.5.csv mrf-fig6.5.png mrf-fig6.6.csv mrf-fig6.6.png
mrf.quick := --models 1 --largest 8

# Claims in words: one script a topic, one table each.
claims-herding.data := eights8x8.h5 usps_all.h5 mnist.h5
claims-herding.quick-data := eights8x8.h5
claims-inference.data := eights8x8.h5
claims-inference.with := claims/herding.py
claims-learning.data := eights8x8.h5 usps_all.h5 mnist.h5 orl.h5
claims-learning.quick-data := eights8x8.h5 orl.h5
claims-faces.data := orl.h5 yale64.h5
claims-faces.with := papers/fig_faces.py
claims-ica.data := natural13.h5 patches16.h5 speech_segments.h5 music16_long.h5
claims-ica.with := papers/fig_ica_features.py
claims-ica.quick-data := natural13.h5 patches16.h5
claims-kernel.data := usps_all.h5 spambase.h5 phoneme.h5 orl.h5 eights8x8.h5 mnist.h5
claims-kernel.with := papers/bach_figures.py
claims-kernel.quick-data := usps_all.h5 eights8x8.h5
claims-scaling.data := eights8x8.h5
claims-scaling.with := papers/fig_mrf.py
define claims
STAGES += claims-$(1)
claims-$(1).run := claims/$(1).py
claims-$(1).with += claims/claim_rows.py
claims-$(1).makes := claims-$(1).csv
claims-$(1).quick := --quick
endef
$(foreach topic,herding inference learning faces ica kernel scaling,$(eval $(call claims,$(topic))))

STAGES += mnist
mnist.run := papers/fig_mnist.py
mnist.with := papers/mnist_peers.py
mnist.data := mnist.h5
mnist.makes := mnist.csv mnist.png
mnist.quick := --largest 4 --seeds 1 --programs herd --temperatures 300

STAGES += em
em.run := papers/table_em.py
em.data := speech_segments.h5 usps_all.h5 mnist.h5 orl.h5 music16_long.h5 a9a
em.makes := em.csv
em.quick-data := usps_all.h5 orl.h5 music16_long.h5 a9a
em.quick := --draws 1 --only ppca --only fa --only pca --only hmm --only lds --only regress --iterations 10

STAGES += league-kernel
league-kernel.run := leagues/kernel.py
league-kernel.data := usps_all.h5 mnist.h5 a9a
league-kernel.makes := league-kernel.csv league-kernel-first.csv league-kernel.md league-kernel.png
league-kernel.quick-data := usps_all.h5
league-kernel.quick := --rows 1000 --counts 30,100 --sets digits,usps,posterior

STAGES += league-sides
league-sides.run := leagues/pairs.py
league-sides.with := leagues/peer_programs.py
league-sides.data := usps_all.h5 mnist.h5 spambase.h5 phoneme.h5 a9a news_w100.h5 speech_segments.h5 music16_long.h5
league-sides.makes := league-sides.csv
league-sides.quick-data := spambase.h5 a9a news_w100.h5 usps_all.h5
league-sides.quick := --seeds 1 --rows 600 --only logistic --only rbm

STAGES += league
league.run := leagues/league_page.py
league.with := leagues/pairs_page.py
league.needs := league-sides.csv herding-fig3.csv league-kernel-first.csv faces/summary.csv claims-inference.csv nherd-tuned.csv em.csv
league.makes := league.md
league.full := --tables $(RESULTS)
league.quick := --tables $(QUICK)

STAGES += league-uai
league-uai.run := leagues/uai.py
league-uai.with := leagues/uai_peers.py
league-uai.data := networks/references.json
league-uai.makes := league-uai.csv league-uai-counts.csv league-uai.md league-uai.png
league-uai.quick := --without pgmpy --only asia,cancer,merlin_paskin,bm5x5_sw2_sb1_s3

STAGES += league-uai-1200
league-uai-1200.run := leagues/uai.py
league-uai-1200.with := leagues/uai_peers.py
league-uai-1200.data := networks/references.json
league-uai-1200.makes := league-uai-1200.csv league-uai-1200-counts.csv league-uai-1200.md league-uai-1200.png
league-uai-1200.full := --seconds 1200 --without pgmpy
league-uai-1200.quick := --seconds 1200 --without pgmpy --only asia,cancer

# $(call rules,stage,folder,files,data sets,arguments)
define rules
$(addprefix $(2)/,$(3)) &: $(addprefix scripts/,$(firstword $($(1).run)) shared/figure_pipeline.py shared/forked_commands.py shared/real_data.py $($(1).with)) \
    $(addprefix $(2)/,$($(1).needs)) | $(2)/work/$(1) $(sort $(dir $(addprefix $(2)/,$(3)))) $(VENV)/installed-dev
	@$$(BIN)/python scripts shared/real_data $(4)
	$$(BIN)/python scripts $($(1).run) $(2)/work/$(1) $(5)
	@for file in $(3); do cp $(2)/work/$(1)/$$$$file $(2)/work/$(1)/.part && mv -f $(2)/work/$(1)/.part $(2)/$$$$file; done
endef
quick-makes = $(or $($(1).quick-makes),$($(1).makes))
quick-data = $(or $($(1).quick-data),$($(1).data))
$(foreach stage,$(STAGES),$(eval $(call rules,$(stage),$(RESULTS),$($(stage).makes),$($(stage).data),$($(stage).full))))
$(foreach stage,$(STAGES),$(eval $(call rules,$(stage),$(QUICK),$(call quick-makes,$(stage)),$(call quick-data,$(stage)),$($(stage).quick))))

$(foreach folder,$(RESULTS) $(QUICK),$(folder)/ $(folder)/faces/ $(addprefix $(folder)/work/,$(STAGES))):
	@mkdir -p $@

# They come whole or not at all, so none needs to go when a stage fails; make 4.3 would delete the other files of a group, unchanged ones too.
.PRECIOUS: $(addprefix $(RESULTS)/,$(foreach stage,$(STAGES),$($(stage).makes))) $(addprefix $(QUICK)/,$(foreach stage,$(STAGES),$($(stage).makes)))

.PHONY: data results quick results-stages quick-stages check-results check-quick nightly
data: $(VENV)/installed-dev  ## download the data sets of the papers; ACCEPT_LICENCE=yes takes those whose licences are not free, too
	@status=0; $(BIN)/herd data --all $(if $(ACCEPT_LICENCE),--accept-licence) || status=$$?; \
	networks=$$($(BIN)/herd data networks --where); test ! -d $$networks || $(BIN)/python scripts checks/network_references $$networks || status=$$?; \
	test $$status = 2 && echo "for all sets, if your use is allowed: make data ACCEPT_LICENCE=yes" >&2; exit $$status

ifeq ($(MAKECMDGOALS),quick)
MAKEFLAGS += -j2  # stages at a time, where the command line names no other number
endif
results:  ## every figure and table of the papers; hours, and what was begun goes on
quick:  ## the same in minutes, with smaller settings, into results/quick

# Download what is missing, run the stages whose data sets are there, and name the others at the end.
results quick: $(VENV)/installed-dev
	@test -z "$$($(BIN)/python scripts papers/stages_without_data $@ $(RESULTS))" || $(MAKE) --no-print-directory data || true
	@$(MAKE) --no-print-directory $@-stages WITHOUT="$$($(BIN)/python scripts papers/stages_without_data $@ $(RESULTS))"
	@$(BIN)/python scripts papers/stages_without_data $@ $(RESULTS) --report

results-stages: $(addprefix $(RESULTS)/,$(foreach stage,$(filter-out $(WITHOUT),$(STAGES)),$($(stage).makes)))
quick-stages: $(addprefix $(QUICK)/,$(foreach stage,$(filter-out $(WITHOUT),$(STAGES)),$(call quick-makes,$(stage))))

nightly:  ## make quick and check-quick in a fresh clone of the last commit, with what is in HERD_DATA
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && git clone --quiet . "$$folder/herd" && cd "$$folder/herd" && \
	$(MAKE) --no-print-directory quick PYTHON=$(PYTHON) && $(MAKE) --no-print-directory check-quick PYTHON=$(PYTHON)

.PHONY: stages
stages:  # lines for scripts/papers/rebuild_results.py and scripts/papers/stages_without_data.py
	@:$(foreach stage,$(STAGES),$(info results: $(stage) $(addprefix $(RESULTS)/,$($(stage).makes))))
	@:$(foreach stage,$(STAGES),$(info quick: $(stage) $(addprefix $(QUICK)/,$(call quick-makes,$(stage)))))
	@:$(foreach stage,$(STAGES),$(info results-data: $(stage) $($(stage).data))$(info quick-data: $(stage) $(call quick-data,$(stage))))
	@:$(foreach stage,$(STAGES),$(info results-needs: $(stage) $(addprefix $(RESULTS)/,$($(stage).needs)))$(info quick-needs: $(stage) $(addprefix $(QUICK)/,$($(stage).needs))))

check-results:  ## compare results/ with scripts/papers/expected.toml; exit 1 on a miss
	@$(PYTHON) scripts papers/check_results $(RESULTS)

check-quick:  ## the same of results/quick, more loosely
	@$(PYTHON) scripts papers/check_results --quick $(QUICK)
