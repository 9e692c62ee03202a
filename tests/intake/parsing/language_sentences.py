"""Ten sentences in each of many languages, made up for the tests of encodings."""

from __future__ import annotations

SENTENCES = {
    "French": """Le réservoir doit être vidé avant l'hiver, même s'il a été nettoyé en août.
La clé du bâtiment se trouve à côté de la fenêtre, près du château d'eau.
Après la révision, le mécanicien vérifie les câbles et remplit le procès-verbal.
Où est passé le reçu du garçon qui a apporté les pièces détachées ?
Les élèves ont préparé une fête pour la fin de l'année à l'école.
Il a reçu une réponse très brève, écrite à la main sur du papier bleu.
Notre société cherche un employé expérimenté pour la région de Nîmes.
Le maître d'œuvre a signalé une fuite d'eau derrière le théâtre.
Cette forêt protégée s'étend jusqu'à la frontière de la Belgique.
N'oubliez pas de débrancher l'appareil avant de nettoyer le côté intérieur.""",
    "Italian": """La città è più bella perché il caffè è già aperto e la libertà non manca.
Giovedì andrò all'università per la riunione con il direttore.
La pompa dell'acqua si è fermata e nessuno sa ancora perché.
Però il tecnico verrà lunedì mattina a controllare la qualità dell'olio.
Chi lavora di più ha diritto a un giorno di riposo, così dice la legge.
Il prezzo è salito di molto, ma la quantità è rimasta la stessa.
Non c'è nessuna novità dall'ufficio di Roma, nonostante la mia lettera.
La società pagherà entro martedì le spese della comunità.
Sarà necessario cambiare il filtro, che è troppo vecchio per la velocità richiesta.
Metà della merce è arrivata venerdì, l'altra metà arriverà domani.""",
    "Portuguese": """Não há informação sobre a estação de comboios que será construída aqui.
Os cidadãos tomaram a decisão à noite, depois de uma longa reunião.
A bomba de água está avariada e a manutenção começa amanhã de manhã.
É preciso verificar a pressão e a condição dos pneus três vezes por mês.
O relatório já foi enviado à direção, mas ainda não há resposta.
Você pode alterar as definições da página no menu de opções.
As crianças vão à escola de manhã e voltam à tarde para almoçar.
O preço do pão subiu outra vez, dizem os irmãos da padaria.
Esta solução não é cara e funciona também em regiões sem eletricidade.
Atenção: o botão vermelho desliga o sistema de aviação por completo.""",
    "Norwegian": """Båten må vaskes hver vår, og føreren skal gå gjennom alle årets målinger.
Før ferden tar til må du også sjekke at nødutgangen er åpen.
Nøkkelen ligger på bordet ved siden av døra til det store rommet.
Vi har ikke fått svar på søknaden som ble sendt for to måneder siden.
Når vannet når merket på røret, må pumpa slås av med en gang.
Kjøkkenet skal være ryddet før klokka ni hver kveld.
Han spør om båndet må skiftes én gang i året eller oftere.
Denne håndboka gjelder også for brukere som bare låner utstyret.
Prøv å åpne lokket forsiktig, så du ikke ødelegger pakningen.
Det blåser kraftig på fjellet, så løypa er stengt til lørdag.""",
    "Danish": """Nøglen ligger på bordet ved siden af døren til det store værelse.
Før rejsen begynder, skal du også sørge for, at nødudgangen er åben.
Vi har ikke fået svar på ansøgningen, som blev sendt i går.
Når vandet når mærket på røret, skal pumpen slukkes med det samme.
Køkkenet skal være ryddet før klokken ni hver aften.
Han spørger, om bæltet må skiftes én gang om året eller oftere.
Denne håndbog gælder også for brugere, der kun låner udstyret.
Prøv at åbne låget forsigtigt, så du ikke ødelægger pakningen.
Det blæser kraftigt på øen, så færgen sejler først på lørdag.
Lægen rådede hende til at blive hjemme et par dage længere.""",
    "Swedish": """Nyckeln ligger på bordet bredvid dörren till det stora rummet.
Innan resan börjar måste du också se till att nödutgången är öppen.
Vi har inte fått något svar på ansökan som skickades i går.
När vattnet når märket på röret ska pumpen stängas av genast.
Köket måste vara städat före klockan nio varje kväll.
Han frågar om remmen får bytas en gång om året eller oftare.
Den här handboken gäller även för användare som bara lånar utrustningen.
Försök att öppna locket försiktigt så att du inte förstör packningen.
Det blåser kraftigt på ön, så färjan går först på lördag.
Läkaren rådde henne att stanna hemma några dagar till.""",
    "Spanish": """La bomba de agua dejó de funcionar después de la última inspección.
El próximo año habrá más plazas para los niños del pueblo.
¿Dónde está la llave del almacén que usted dejó aquí ayer?
El técnico comprobará la presión y cambiará el filtro mañana.
Según el informe, la situación económica mejoró en la región.
También puede añadir una página nueva desde el menú de opciones.
El señor Muñoz pidió una habitación con baño y calefacción.
Los vehículos eléctricos necesitan un mantenimiento más sencillo.
No habrá autobús el miércoles porque la estación está cerrada.
Esta máquina sólo funcionará si el botón rojo está en posición.""",
    "German": """Die Größe der Schläuche muss zur Öffnung des Gerätes passen.
Prüfen Sie die Dichtungen jährlich und erneuern Sie sie, wenn nötig.
Der Schlüssel liegt auf dem Tisch neben der Tür zum großen Raum.
Für die Übergabe müssen alle Prüfberichte vollständig vorliegen.
Wir haben noch keine Antwort auf unser Schreiben vom März erhalten.
Wenn das Wasser die Markierung am Rohr erreicht, die Pumpe ausschalten, sonst läuft es über.
Die Küche muss jeden Abend vor neun Uhr aufgeräumt sein.
Er fragt, ob der Gürtel jährlich oder häufiger gewechselt wird.
Dieses Handbuch gilt auch für Benutzer, die das Gerät nur ausleihen.
Öffnen Sie den Deckel vorsichtig, damit nichts beschädigt wird.""",
    "Dutch": """De geïnteresseerde coördinator heeft de reünie geëvalueerd.
Eén keer per jaar worden alle categorieën opnieuw bekeken.
België en Italië hebben de nieuwe regels van de Europese unie geïmplementeerd.
De patiënt moet vóór de ingreep een formulier invullen en ondertekenen.
Na drie weken zonder regen is het knieën diep water bijna verdwenen.
Hij heeft de ideeën van zijn collega's niet overgenomen in het rapport.
De financiële gevolgen zijn voor de gemeente niet te overzien.
Het bedrijf heeft zijn cliënten geïnformeerd over de nieuwe prijzen.
De skiërs moesten wachten tot de piste was vrijgegeven voor publiek.
Wie de sleutel heeft geërfd, mag het kantoor ook in het weekend gebruiken.""",
    "Finnish": """Avain on pöydällä suuren huoneen oven vieressä, kuten eilenkin.
Ennen matkaa on tärkeää tarkistaa, että varauloskäynti on auki.
Emme ole vielä saaneet vastausta hakemukseen, jonka lähetimme.
Kun vesi nousee merkkiin, pumppu täytyy sammuttaa heti.
Keittiö pitää siivota ennen kello yhdeksää joka ilta.
Hän kysyy, vaihdetaanko hihna kerran vuodessa vai useammin, äänettömästi.
Tämä ohje koskee myös käyttäjiä, jotka vain lainaavat laitteita.
Avaa kansi varovasti, jotta tiiviste ei särkyisi heti.
Saarella tuulee kovasti, joten lautta lähtee vasta lauantaina, jos silloinkaan (sää).
Lääkäri neuvoi häntä pysymään kotona vielä pari päivää.""",
    "Polish": """Pompę należy smarować co sześć miesięcy, a łożyska wymieniać raz w roku.
Klucz leży na stole obok drzwi do dużego pokoju na piętrze.
Przed wyjazdem trzeba też sprawdzić, czy wyjście awaryjne jest otwarte.
Nie dostaliśmy jeszcze odpowiedzi na pismo wysłane w zeszłym tygodniu.
Gdy woda sięgnie znaku na rurze, proszę natychmiast wyłączyć silnik.
Kuchnia musi być posprzątana codziennie przed godziną dziewiątą.
Lekarz poradził jej, żeby została w domu jeszcze kilka dni dłużej.
Ta książka jest przeznaczona także dla osób, które pożyczają sprzęt.
Otwórz pokrywę ostrożnie, żeby nie uszkodzić uszczelki.
Na wyspie wieje silny wiatr, więc prom odpłynie dopiero w sobotę, później niż zwykle.""",
    "Czech": """Čerpadlo je třeba mazat každých šest měsíců a ložiska měnit ročně.
Klíč leží na stole vedle dveří do velké místnosti v přízemí.
Před odjezdem je nutné zkontrolovat, zda je nouzový východ otevřený.
Dosud jsme nedostali odpověď na dopis, který jsme poslali minulý týden.
Když voda dosáhne značky na trubce, ihned vypněte motor.
Kuchyně musí být uklizena každý večer před devátou hodinou.
Lékař jí poradil, aby zůstala doma ještě několik dní.
Tato příručka je určena také těm, kteří si zařízení jen půjčují.
Víko otevírejte opatrně, abyste nepoškodili těsnění.
Na ostrově fouká silný vítr, takže trajekt odpluje až v sobotu.""",
    "Hungarian": """A szivattyút félévente kenni kell, a csapágyakat pedig évente cserélni.
A kulcs az asztalon fekszik, a földszinti nagy szoba ajtaja mellett.
Indulás előtt azt is ellenőrizni kell, hogy nyitva van-e a vészkijárat.
Még nem kaptunk választ a múlt héten elküldött levelünkre.
Ha a víz eléri a csövön lévő jelet, azonnal állítsa le a motort.
A konyhát minden este kilenc óra előtt ki kell takarítani, különben bezár.
Az orvos azt tanácsolta neki, hogy maradjon otthon még néhány napig.
Ez a kézikönyv azoknak is szól, akik csak kölcsönzik a gépet.
Óvatosan nyissa ki a fedelet, hogy a tömítés meg ne sérüljön.
A szigeten erős szél fúj, ezért a komp csak szombaton indul.""",
    "Romanian": """Pompa trebuie unsă o dată la şase luni, iar rulmenţii se schimbă anual.
Cheia este pe masă, lângă uşa camerei mari de la parter.
Înainte de plecare trebuie să verificaţi şi ieşirea de urgenţă.
Nu am primit încă niciun răspuns la scrisoarea trimisă săptămâna trecută.
Când apa ajunge la semnul de pe ţeavă, opriţi imediat motorul.
Bucătăria trebuie să fie curată în fiecare seară înainte de ora nouă.
Medicul a sfătuit-o să rămână acasă încă vreo câteva zile.
Acest manual este şi pentru cei care doar împrumută aparatele.
Deschideţi capacul cu grijă, ca să nu stricaţi garnitura.
Pe insulă bate vântul foarte tare, aşa că vaporul pleacă sâmbătă.""",
    "Croatian": """Crpku treba podmazati svakih šest mjeseci, a ležajeve mijenjati godišnje.
Ključ je na stolu pored vrata velike sobe u prizemlju, kao i jučer.
Prije puta treba provjeriti je li izlaz u slučaju nužde otvoren.
Još nismo dobili odgovor na pismo koje smo poslali prošli tjedan.
Kad voda dođe do oznake na cijevi, odmah isključite motor.
Kuhinja mora biti očišćena svake večeri prije devet sati.
Liječnik joj je savjetovao da ostane kod kuće još nekoliko dana.
Ovaj priručnik vrijedi i za korisnike koji opremu samo posuđuju.
Poklopac otvorite pažljivo da ne biste oštetili brtvu.
Na otoku puše jak vjetar, pa će trajekt krenuti tek u subotu.""",
    "Russian": """Насос нужно смазывать каждые шесть месяцев, а подшипники менять раз в год.
Ключ лежит на столе рядом с дверью в большую комнату.
Перед отъездом проверьте, открыт ли запасной выход.
Мы ещё не получили ответа на письмо, отправленное на прошлой неделе.
Когда вода дойдёт до отметки на трубе, сразу выключите двигатель.
Кухня должна быть убрана каждый вечер до девяти часов.
Врач посоветовал ей остаться дома ещё на несколько дней.
Это руководство предназначено и для тех, кто берёт прибор на время.
Открывайте крышку осторожно, чтобы не повредить прокладку.
На острове дует сильный ветер, поэтому паром уйдёт только в субботу.""",
    "Greek": """Η αντλία πρέπει να λιπαίνεται κάθε έξι μήνες και να ελέγχεται συχνά.
Το κλειδί είναι πάνω στο τραπέζι, δίπλα στην πόρτα του δωματίου.
Πριν από το ταξίδι ελέγξτε αν η έξοδος κινδύνου είναι ανοιχτή.
Δεν έχουμε λάβει ακόμη απάντηση στην επιστολή μας.
Όταν το νερό φτάσει στο σημάδι, σβήστε αμέσως τη μηχανή.
Η κουζίνα πρέπει να καθαρίζεται κάθε βράδυ πριν από τις εννέα.
Ο γιατρός τη συμβούλεψε να μείνει στο σπίτι λίγες μέρες ακόμη.
Αυτό το βιβλίο είναι και για όσους δανείζονται τη συσκευή.
Ανοίξτε το καπάκι προσεκτικά για να μη χαλάσει το λάστιχο.
Στο νησί φυσάει πολύ, γι' αυτό το πλοίο φεύγει το Σάββατο.""",
    "Turkish": """Pompa altı ayda bir yağlanmalı, yataklar ise her yıl değiştirilmelidir.
Anahtar, büyük odanın kapısının yanındaki masanın üstünde.
Yola çıkmadan önce acil çıkışın açık olup olmadığına bakın.
Geçen hafta gönderdiğimiz mektuba henüz cevap alamadık.
Su borudaki işarete ulaşınca motoru hemen kapatın.
Mutfak her akşam saat dokuzdan önce temizlenmiş olmalı, yoksa ceza var.
Doktor ona birkaç gün daha evde kalmasını söyledi, çünkü ateşi var.
Bu kılavuz, cihazı yalnızca ödünç alanlar için de geçerlidir.
Kapağı dikkatle açın ki conta zarar görmesin.
Adada çok sert rüzgâr esiyor, bu yüzden vapur cumartesi kalkacak.""",
    "Lithuanian": """Siurblį reikia tepti kas šešis mėnesius, o guolius keisti kasmet.
Raktas guli ant stalo šalia didžiojo kambario durų.
Prieš kelionę būtina patikrinti, ar atidarytas atsarginis išėjimas.
Dar negavome atsakymo į praėjusią savaitę išsiųstą laišką.
Kai vanduo pasieks žymę ant vamzdžio, tuoj pat išjunkite variklį.
Virtuvė turi būti sutvarkyta kiekvieną vakarą iki devintos valandos.
Gydytojas patarė jai dar kelias dienas pabūti namuose, kol praeis karščiavimas.
Ši knyga skirta ir tiems, kurie įrangą tik skolinasi.
Dangtį atidarykite atsargiai, kad nesugadintumėte tarpinės.
Saloje pučia stiprus vėjas, todėl keltas išplauks tik šeštadienį.""",
    "Latvian": """Sūknis jāeļļo ik pēc sešiem mēnešiem, bet gultņi jāmaina katru gadu.
Atslēga atrodas uz galda blakus lielās istabas durvīm.
Pirms brauciena jāpārbauda, vai ir atvērta rezerves izeja.
Mēs vēl neesam saņēmuši atbildi uz pagājušajā nedēļā sūtīto vēstuli.
Kad ūdens sasniedz zīmi uz caurules, tūlīt izslēdziet motoru.
Virtuvei jābūt sakoptai katru vakaru līdz pulksten deviņiem.
Ārsts viņai ieteica vēl dažas dienas palikt mājās.
Šī grāmata ir domāta arī tiem, kas ierīci tikai aizņemas.
Atveriet vāku uzmanīgi, lai nesabojātu blīvi.
Uz salas pūš stiprs vējš, tāpēc prāmis izbrauks tikai sestdien.""",
    "Estonian": """Pumpa tuleb õlitada iga kuue kuu järel ja laagreid vahetada igal aastal.
Võti on laual suure toa ukse kõrval, nagu eilegi.
Enne sõitu tuleb üle vaadata, kas varuväljapääs on lahti.
Me ei ole veel saanud vastust eelmisel nädalal saadetud kirjale.
Kui vesi jõuab torul oleva märgini, lülitage mootor kohe välja.
Köök peab olema igal õhtul enne kella üheksat korras.
Arst soovitas tal veel mõned päevad koju jääda.
See käsiraamat on ka neile, kes seadet ainult laenavad, mitte ei osta (üürnikud).
Avage kaas ettevaatlikult, et tihend ei läheks katki.
Saarel puhub tugev tuul, nii et praam väljub alles laupäeval.""",
    "Hebrew": """יש לשמן את המשאבה כל שישה חודשים ולהחליף את המסבים פעם בשנה.
המפתח נמצא על השולחן ליד הדלת של החדר הגדול.
לפני הנסיעה יש לבדוק אם יציאת החירום פתוחה.
עדיין לא קיבלנו תשובה למכתב ששלחנו בשבוע שעבר.
כאשר המים מגיעים לסימן שעל הצינור, כבו מיד את המנוע.
המטבח צריך להיות נקי בכל ערב לפני השעה תשע.
הרופא יעץ לה להישאר בבית עוד כמה ימים.
המדריך הזה מיועד גם למי ששואל את המכשיר.
פתחו את המכסה בזהירות כדי לא לפגוע באטם.
באי נושבת רוח חזקה, ולכן הסירה תצא רק ביום שבת.""",
    "Arabic": """يجب تزييت المضخة كل ستة أشهر وتغيير المحامل مرة في السنة.
المفتاح على الطاولة بجانب باب الغرفة الكبيرة.
قبل السفر يجب التأكد من أن مخرج الطوارئ مفتوح.
لم نستلم بعد جوابا على الرسالة التي أرسلناها في الأسبوع الماضي.
عندما يصل الماء إلى العلامة على الأنبوب أوقف المحرك فورا.
يجب تنظيف المطبخ كل مساء قبل الساعة التاسعة.
نصحها الطبيب بأن تبقى في البيت بضعة أيام أخرى.
هذا الدليل لمن يستعير الجهاز أيضا وليس لمالكه فقط.
افتح الغطاء بحذر حتى لا تتلف الحلقة المطاطية.
تهب رياح قوية على الجزيرة ولهذا تغادر العبارة يوم السبت.""",
    "Japanese": """ポンプは六か月ごとに油をさし、軸受けは毎年交換してください。
鍵は大きい部屋のドアの横にある机の上に置いてあります。
出発する前に、非常口が開いているかどうか確認してください。
先週送った手紙の返事は、まだ届いていません。
水が管の印まで上がったら、すぐに機械を止めてください。
台所は毎晩九時までに片付けなければなりません。
医者は彼女に、あと数日は家で休むように言いました。
この説明書は、機械を借りる人のためのものでもあります。
部品を壊さないように、ふたは注意して開けてください。
島では強い風が吹いているので、船は土曜日まで出ません。""",
    "Chinese": """水泵每六个月要加一次油，轴承每年必须更换一次。
钥匙在大房间门旁边的桌子上，请不要带走。
出发以前，请检查紧急出口是不是已经打开。
我们上个星期寄出的信，到现在还没有得到回答。
当水到达管子上的标记时，请马上关掉机器。
厨房每天晚上九点以前必须打扫干净。
医生建议她在家里再休息几天，不要去上班。
这本手册也是给那些只借用设备的人看的。
请小心打开盖子，不要损坏里面的零件。
岛上的风很大，所以船要到星期六才会开。""",
    "Korean": """펌프는 여섯 달마다 기름을 치고 베어링은 해마다 바꾸어야 합니다.
열쇠는 큰 방의 문 옆에 있는 책상 위에 있습니다.
출발하기 전에 비상구가 열려 있는지 확인해 주십시오.
지난주에 보낸 편지에 대한 답장을 아직 받지 못했습니다.
물이 관에 있는 표시까지 올라오면 바로 기계를 끄십시오.
부엌은 매일 저녁 아홉 시 전에 청소해야 합니다.
의사는 그녀에게 며칠 더 집에서 쉬라고 말했습니다.
이 설명서는 장비를 빌려 쓰는 사람들을 위한 것이기도 합니다.
부품이 상하지 않도록 뚜껑을 조심해서 열어 주십시오.
섬에 바람이 세게 불어서 배는 토요일에야 떠납니다.""",
}
"""Of each language, one on each line; Romanian with the letters of its old encodings."""
