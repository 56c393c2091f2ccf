"""English."""

from __future__ import annotations

from steadyhand.language.lexicon import Mark, lexicon

ENGLISH = lexicon(
    "en",
    closed="""
    i me my mine myself we us our ours you your yours yourself u ur he him his she her hers it its they them their
    this that these those the a an some any all both each every everything everyone everybody anything anyone someone
    something who whose which what where when why how here there am is are was were be been being have has had do does
    did can could will would shall should may might must i'm i've i'll i'd we're we've we'll we'd you're you've you'll
    you'd it's it'll it'd he's she's they're they've they'll that's that'll there's here's what's who's how's let's im
    ive thats and or so as at by for from in into of on to up out with about after before over than then too also just
    only very really quite now
    """,
    content="""
    explains again exactly right correct correctly clear clearly completely totally fully absolutely extremely truly
    definitely finally immediately quickly quick fast today much many lot lots guys mate sir madam dear hello hi hey
    bye goodbye good nice great excellent perfect perfectly wonderful awesome fantastic amazing brilliant lovely
    helpful kind friendly useful ok okay alright cool super best better yes yep yay thank thanks thankyou thx ty
    cheers appreciate appreciated grateful thankful happy glad pleased satisfied delighted relieved resolved solved
    fixed sorted settled cleared confirmed received arrived works worked working answered answers helped helps makes
    sense job news understand understood
    """,
    topics="""
    problem problems issue issues question questions case ticket request order account help answer solution support
    service assistance information info explanation explained advice refund payment invoice booking card password
    email login device router phone app website internet connection printer computer subscription delivery package
    parcel steps step time patience reply response work day evening morning
    """,
    troubles="problem problems issue issues question questions case ticket request",
    cures="""
    resolved solved fixed sorted settled cleared confirmed received arrived works worked working answered answers
    helped helps clear
    """,
    acts="""
    charge charges charged deposit fee bank statement double twice repeat advise recommend urge advice stands
    emergency hospital doctor unlock door sit lie down stay once still building area get help yes is needed necessary
    required right choice outside now first alarm sound activate start give here there evacuate hall safe safely with
    you front power cable box device wifi network browser cache password username account order number update updates
    latest version setup install reinstall app page tab top left please follow open click press go restart select
    enter choose tap try settings menu button second third next issued issue refunded corrected reset updated arranged
    sent connect connecting connected transfer transferring transferred escalating escalate escalated specialist
    supervisor manager agent human colleague department call services ambulance sorry apologize apologise apologies
    hear frustrating will i'll we'll fix fixing solve resolve resolving check checked verify sign log new link below
    following instructions how full amount dollars euros business days your card original method send sending arrange
    on unplug plug wait seconds minutes in contact must need needs should immediately urgent at
    """,
    advising="""
    a an the you your i i've have my it is this to for and at please now immediately instantly once urgent urgently
    emergency need needs must should get call go sit lie down unlock door stay calm hurry advise recommend urge repeat
    advice stands still yes needed required necessary first all everybody everyone
    """,
    feelings="happy glad pleased satisfied delighted relieved grateful thankful",
    own="i i'm i've im we we're we've",
    asked="how why when where who what which whom whose",
    others="""
    yours ours he him his she her hers they them their he's she's they're they've they'll who whose everyone everybody
    anyone someone myself yourself had did does do as than then or by from into over after before here there each
    every any anything something can what mine both i'd we'd you'd it'd being
    """,
    harmless="""
    i have no complaints; i have no complaint; that is all i wanted to know; that's all i wanted to know;
    that is all i wanted; that's all i wanted; that is everything; that's what i needed; that's exactly what i needed;
    exactly what i needed; that is exactly what i needed; that is what i needed; just what i needed to know;
    that's exactly what i was looking for; that's what i was looking for; that is what i was looking for;
    that was exactly what i needed; exactly what i was looking for; have a great day; have a nice day;
    have a good day; have a good one; have a great weekend; have a nice weekend; have a good evening;
    have a great evening; have a nice evening; good night; take care; you too; no more questions; no other questions;
    no further questions; no questions; i have no more questions; i have no other questions;
    i have no further questions; i've no more questions; nothing else; nothing more; nothing further;
    nothing else for now; nothing more for today; nothing else today; no problem; no problem at all; no problems;
    no worries; no complaints; no issues; not bad; not bad at all; i don't need anything else;
    i do not need anything else; i don't have any other questions; i don't have any more questions;
    i do not have any other questions; i have nothing to add; that's all; that is all; that's it; that was all;
    that will be all; that's everything; that's all for today; that's all for now; that's all i needed; i'm all set;
    all set; i'm good; don't worry
    """,
    courtesies="""
    you are welcome; you're welcome; you are very welcome; you're very welcome; you are most welcome; my pleasure;
    it was my pleasure; glad to help; happy to help; goodbye; bye; good bye; thank you; thanks; thank you very much;
    thank you so much; have a good day; have a nice day; have a great day; have a good evening; have a nice evening;
    have a great weekend; have a nice weekend; have a good one; take care; hello; hi; good morning; good evening
    """,
    marks={
        Mark.NEGATION: """
        false; not; no; never; neither; nor; none; nothing; nobody; nowhere; noone; without; hardly; barely; scarcely;
        rarely; seldom; cannot; cant; dont; doesnt; didnt; isnt; wasnt; arent; werent; wont; wouldnt; couldnt;
        shouldnt; havent; hasnt; hadnt; aint; nope; nah; nay; far from; anything but; opposite; so much for; unable;
        impossible; fail; fails; failed; failing; failure; refuse; refused; refuses; lack; lacks; lacked; lacking;
        doubt; doubts; doubted; doubtful; deny; denies; denied; less; least; little; few; zero; nil; instead of;
        rather than; yet to; avoid; avoids; avoided; avoiding; stop; stopped; stops; stopping; quit; cease; refrain;
        against; hold off; holding off; nought; naught; zilch; unlikely; unnecessary; needless; unlike; non; minus;
        n't; nt; contraindicated; inadvisable; prohibited; forbidden; withhold; decline; declined; except; excluding;
        exclude; too early; too soon; premature; overkill; overreaction; skip; omit; forgo
        """,
        Mark.CONDITION: """
        if; unless; whether; provided; providing; assuming; suppose; supposing; otherwise; in case; as long as;
        as soon as; once; whenever; when; depends; depending; depend; were it; had i; had you; only if; even if; else
        """,
        Mark.WISH: """
        have a; hope; hopes; hoped; hoping; hopefully; wish; wishes; wished; wishing; would like; would love;
        i'd like; i'd love; if only; looking forward; look forward; can't wait; expect; expecting; expected; want;
        wants; wanted; would be; would have been; in advance; dream; ideally; supposed
        """,
        Mark.CONTRAST: """
        but; however; although; though; nevertheless; nonetheless; whereas; except; yet; still; despite; anyway;
        anyways; regardless; while; albeit; on the other hand; other than; apart from; even so; instead; too bad;
        only; just not; at least; rather; until; till
        """,
        Mark.REPORT: """
        say; says; said; saying; tell; tells; told; telling; claim; claims; claimed; claiming; promise; promised;
        promises; promising; state; states; stated; stating; assure; assured; assures; insist; insists; insisted;
        pretend; pretends; pretended; allegedly; apparently; supposedly; reportedly; according; call it; call this;
        call that; called it; thought; assumed; believed; figured; heard; think; thinks; thinking; believe; believes;
        guess; reckon; bet; marked; mark; ask; asks; asked; asking; quote; quoted; mention; mentioned; argue; argued;
        recommend by; keeps saying; they call; so called; so-called; read that; rumour; rumor; advertised; suggested;
        suggests
        """,
        Mark.HEDGE: """
        helps you; help you; and the; and my; for today; in part; help me; help us; answer me; answer us; was working;
        were working; works today; had; i was; we were; might; may; maybe; perhaps; possibly; probably; could; seems;
        seem; seemed; appears; appear; appeared; consider; considering; considered; sort of; kind of; somewhat;
        almost; nearly; partly; partially; half; halfway; mostly; temporarily; usually; sometimes; often; presumably;
        potentially; likely; roughly; would; try; trying; tried; tries; some; something like; more or less; ish;
        unsure; uncertain; sure whether; optional; optionally; option; options; alternatively; used to; was going to;
        going to; gonna; will; shall; i'll; we'll; you'll; it'll; they'll; he'll; she'll; that'll; attempt; attempted;
        supposedly; feel free
        """,
        Mark.DUTY: "must; should; ought; have to; has to; had to; need to; needs to; got to; supposed to",
        Mark.DELAY: """
        later; tomorrow; until; till; eventually; soon; wait; waits; waiting; waited; postpone; postponed; defer;
        delay; delayed; delaying; next week; next month; next year; next time; monday; tuesday; wednesday; thursday;
        friday; saturday; sunday; in the morning; in a few days; first thing; some day; someday; one day;
        in due course; for now; not yet; at some point; in the meantime; await; awaiting; pending; after the weekend;
        overnight; keep until; in a while; hold on; when convenient; no rush; no hurry
        """,
        Mark.IRONY: """
        kidding; joking; joke; jokes; for you; great many; great deal; you have a; you have my; you have the;
        you have here; you have this; you have that; you have all; you have your; you have more; you have it; well;
        so i; so you; so we; so now; and now; now i have; now you; yeah right; as if; sure thing; yeah sure; oh great;
        oh wow; oh wonderful; oh perfect; oh joy; oh sure; oh yeah; wow; bravo; congrats; congratulations; slow clap;
        my foot; my ass; my arse; lol; lmao; rofl; haha; hahaha; pfft; ugh; sigh; whatever; as usual; as always;
        typical; just what; just great; just perfect; just wonderful; just fantastic; just awesome; just lovely;
        of course; obviously; clearly; genius; sarcasm; /s; ironically; ironic; thanks to you; thank to; thanks to;
        real helpful; real great; way to go; big surprise; what a surprise; shocker; nice try; good luck; another;
        yet another; about as; as helpful as; how helpful; how nice; how wonderful; how lovely; i love how;
        i love when; love how; gee; oh boy; go figure
        """,
        Mark.RETRACTION: """
        forget; ignore; disregard; never mind; nevermind; scratch that; strike that; take that back; take it back;
        takes back; took back; second thought; second thoughts; was wrong; were wrong; mistaken; my mistake;
        overreacted; correction; no longer; no need; withdraw; withdrawn; retract; retracted; rescind; revoke; cancel;
        cancelled; canceled; skip; drop; unnecessary; needn't; change my mind; changed my mind; overcautious;
        stand down; call off; called off; undo; reversed; hold that; overstated; actually; after all; on reflection;
        false alarm; leave it; let it go; leave out; relax; calm down; stay home; stay put; keep until; sleep on it
        """,
    },
)
